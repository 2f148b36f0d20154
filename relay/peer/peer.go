// Package peer writes to sessions of Claude Code through the sockets that they have for each other.
//
// The format is private to Claude Code. It was measured:
//
//   - A message is two lines on a connection of its own, and nothing is answered on it. Whoever listens
//     at PID.sock in the directory of the session's socket, PID being its own process, gets a
//     [Notice] if the message is held for the person, refused or dropped. A message that is taken
//     is not confirmed: the session's transcript shows that it was queued and, by its id, that the model was
//     given it.
//   - More than 30 messages at once are dropped, after which there may be one in 2 s. So is a text
//     that comes again within 30 s, under whatever id.
//   - A session that bypasses permissions asks its person first, unless the message says that its
//     sender does, too. We have no such mode, and say nothing.
package peer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"teambridge/relay/delivery"
	"teambridge/teams/rawjson"
	"teambridge/teams/socket"
	"teambridge/teams/transcript"
)

// MaxText is the limit of a text, in bytes. A session drops what is larger than 1 MiB as JSON, in
// which a byte can take six.
const MaxText = 150 << 10

// How much a session takes, a little less than was measured.
const (
	Burst  = 28                      // messages at once
	Refill = 2200 * time.Millisecond // after which there may be one more
	Repeat = 40 * time.Second        // after which an equal text is taken again
	Queue  = 40                      // messages that wait in the session; 50 are documented
)

// Operator is the name that a message has if nobody gave one.
const Operator = "operator"

// Message is what is sent to a session.
type Message struct {
	ID   string // a UUID: the session's transcript names it
	From string // for the agent; by default [Operator]
	Text string
	Try  int // from 1: makes the text another one, after it was dropped
}

// Check returns an error if a message must not be sent: its text is empty, longer than [MaxText] or no
// valid UTF-8, or the sender has what ends an attribute.
func (m Message) Check() error {
	switch {
	case strings.TrimSpace(m.Text) == "":
		return errors.New("the text is empty")
	case !utf8.ValidString(m.Text):
		return errors.New("the text is no valid UTF-8")
	case len(m.Text) > MaxText:
		return fmt.Errorf("the text is %d bytes too long: a session takes %d; put it into a file and send the path", len(m.Text)-MaxText, MaxText)
	case !utf8.ValidString(m.From) || strings.ContainsFunc(m.From, func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`"<>&`, r) }):
		return fmt.Errorf("the sender %q has quotes, brackets or control characters", m.From)
	}
	return nil
}

// closing ends the text of a message. In a text it would be the end for the model.
const closing = "</cross-session-message"

// wrapped is a message as Claude Code wants it. Its own attributes are from, from-name and from-mode;
// it leaves ours alone.
func (m Message) wrapped(from string) string {
	try := ""
	if m.Try > 1 {
		try = ` try="` + strconv.Itoa(m.Try) + `"`
	}
	return fmt.Sprintf("<cross-session-message from=%q from-name=%q message-id=%q%s>\n%s\n%s>", from, cmp.Or(m.From, Operator), m.ID, try,
		strings.ReplaceAll(m.Text, closing, "&lt;"+closing[1:]), closing)
}

// Queued returns the id of a message of ours that Claude Code queues, given its text in a transcript.
func Queued(text string) (id string, ok bool) {
	head, _, ok := strings.Cut(text, ">\n")
	if !ok || !strings.HasPrefix(head, "<cross-session-message ") {
		return "", false
	}
	_, rest, ok := strings.Cut(head, ` message-id="`)
	if !ok {
		return "", false
	}
	id, _, ok = strings.Cut(rest, `"`)
	return id, ok
}

// frame is a line on a socket.
type frame struct {
	Version  int      `json:"msgV,omitempty"`
	ID       string   `json:"msg_id,omitempty"`
	Type     string   `json:"type"`
	Message  *content `json:"message,omitempty"`
	Priority string   `json:"priority,omitempty"`
	From     string   `json:"from,omitempty"`

	Token string `json:"token,omitempty"` // of type auth

	Action  string   `json:"action,omitempty"` // of type control
	Of      string   `json:"orig_msg_id,omitempty"`
	Status  string   `json:"status,omitempty"`
	Detail  string   `json:"status_detail,omitempty"` // refused, with the status expired
	State   string   `json:"state,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Drop    string   `json:"drop_reason,omitempty"`
	Dropped []string `json:"dropped_msg_ids,omitempty"`
}

type content struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Status is what a session says of a message that it has not simply taken.
type Status string

// What sessions say.
const (
	Held      Status = "held"      // until its person allows it
	Denied    Status = "denied"    // by its person
	Delivered Status = "delivered" // after it was held
	Expired   Status = "expired"   // nobody allowed it in time
	Refused   Status = "refused"   // its settings take no messages
	Dropped   Status = "dropped"   // too many, or the same text again

	idle   Status = "idle" // these two to [Mailbox.Idle]
	exited Status = "exited"
)

// Notice is what a session said last of a message.
type Notice struct {
	Status Status
	Reason string // why, for people

	Repeated bool // it was dropped since the same text came before
}

// Mailbox is where sessions answer: a socket in each directory where there is one of theirs. It may
// be used by several goroutines. Close it.
type Mailbox struct {
	state string // directory for the names of our sockets
	take  func(Incoming)

	mu        sync.Mutex
	listeners map[string]net.Listener // by directory
	notices   map[string]Notice       // by the id of the message
	to        map[string]int          // the process to which a message was sent, by the same
	told      chan struct{}           // is closed, and another one made, with each notice
	taken     map[int]*rate.Limiter   // by the process that writes to us
	listed    map[string]*listing     // by directory; if there is none, sessions know us only from our messages
}

// Open returns a mailbox, which begins to listen with its first message. In the directory state it notes
// its sockets, so that the [Mailbox.Sweep] of another one removes what is left of them after a kill. Take is called with what agents write to us,
// by several goroutines; what comes faster than a session would take it is dropped.
func Open(state string, take func(Incoming)) *Mailbox {
	return &Mailbox{
		state: filepath.Join(state, "sockets"), take: take,
		listeners: map[string]net.Listener{}, notices: map[string]Notice{}, to: map[string]int{}, told: make(chan struct{}), taken: map[int]*rate.Limiter{},
		listed: map[string]*listing{},
	}
}

// Close stops listening, and removes the sockets. The next message opens them again.
func (b *Mailbox) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.listeners) == 0 {
		return nil
	}
	failed := []error{b.unlist()}
	for _, l := range b.listeners {
		failed = append(failed, l.Close())
	}
	clear(b.listeners)
	return errors.Join(append(failed, os.Remove(b.note(os.Getpid())))...)
}

func (b *Mailbox) note(pid int) string { return filepath.Join(b.state, strconv.Itoa(pid)) }

// Told returns the last notice of a message, if there is one, and a channel that is closed with the next notice
// of any.
func (b *Mailbox) Told(id string) (n Notice, found bool, next <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, found = b.notices[id]
	return n, found, b.told
}

// Forget forgets what was said of a message.
func (b *Mailbox) Forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.notices, id)
	delete(b.to, id)
}

func unsent(err error) error { return &delivery.UnsentError{Err: err} }

// Send writes a message, which must have been checked, to a session that listens. After an error other than a
// [*delivery.UnsentError], the session may have the message.
func (b *Mailbox) Send(ctx context.Context, root string, to transcript.Process, m Message) error {
	return b.send(ctx, root, to, func(from string) frame {
		return frame{ID: m.ID, Type: "user", Message: &content{"user", m.wrapped(from)}, Priority: "next"}
	})
}

// Idle waits until a session says that it is idle, which it does at once if it is, or that it ends. It costs a message: see [Burst].
func (b *Mailbox) Idle(ctx context.Context, root string, to transcript.Process) error {
	id := uuid.NewString()
	defer b.Forget(id)
	if err := b.send(ctx, root, to, func(string) frame { return frame{ID: id, Type: "control", Action: "notify_when_idle"} }); err != nil {
		return err
	}
	for {
		n, told, next := b.Told(id)
		if told && (n.Status == idle || n.Status == exited) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		}
	}
}

// send writes a frame to a session, which is made with our address.
func (b *Mailbox) send(ctx context.Context, root string, to transcript.Process, made func(from string) frame) error {
	from, err := b.listen(filepath.Dir(to.Socket))
	if err != nil {
		return unsent(err)
	}
	auth, err := token(root, to)
	if err != nil {
		return unsent(err)
	}
	f := made("uds:" + from)
	f.Version, f.From = 1, "uds:"+from
	return b.put(ctx, to.PID, to.Socket, f.ID, frame{Type: "auth", Token: auth}, f)
}

// put writes the lines of a message to the socket of a process.
func (b *Mailbox) put(ctx context.Context, pid int, socket, id string, lines ...any) error {
	var text strings.Builder
	for _, line := range lines {
		data, err := rawjson.Encode(line)
		if err != nil {
			return unsent(err)
		}
		text.Write(append(data, '\n'))
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return unsent(fmt.Errorf("the session with pid %d does not listen: %w", pid, err))
	}
	defer c.Close()
	b.mu.Lock()
	b.to[id] = pid
	delete(b.notices, id)
	b.mu.Unlock()
	until := time.Now().Add(5 * time.Second)
	if at, ok := ctx.Deadline(); ok && at.Before(until) {
		until = at
	}
	if err := c.SetDeadline(until); err != nil {
		return unsent(err)
	}
	if _, err := io.WriteString(c, text.String()); err != nil {
		return fmt.Errorf("write to the session with pid %d: %w", pid, err)
	}
	return c.(*net.UnixConn).CloseWrite()
}

// key is what the owner of a socket wants to be shown first.
type key struct {
	Token  string `json:"peerToken"`
	Start  string `json:"procStart"`
	Domain string `json:"pidDomain"`
}

func keyFile(root string, pid int, socket string) string {
	sum := sha256.Sum256([]byte(socket))
	return filepath.Join(root, "sessions", strconv.Itoa(pid)+"."+hex.EncodeToString(sum[:])+".key")
}

// token returns what a session wants to be shown first.
func token(root string, p transcript.Process) (string, error) {
	path := keyFile(root, p.PID, p.Socket)
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token of the session with pid %d: %w", p.PID, err)
	}
	var k key
	if err := json.Unmarshal(data, &k); err != nil || k.Token == "" {
		return "", fmt.Errorf("%s: there is no peerToken", path)
	}
	return k.Token, nil
}

// listen returns the path of our socket in a directory.
func (b *Mailbox) listen(dir string) (string, error) {
	path := filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock")
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.listeners[dir]; l != nil {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			return path, nil
		}
		_ = l.Close() // nobody can connect to it any more
		delete(b.listeners, dir)
	}
	if err := os.MkdirAll(b.state, 0o700); err != nil {
		return "", err
	}
	b.Sweep()
	// The process that had our id before is gone.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err := b.keep(path); err != nil {
		return "", err
	}
	l, err := socket.Listen(path)
	if err != nil {
		return "", fmt.Errorf("listen beside the sessions: %w", err)
	}
	b.listeners[dir] = l
	go b.serve(l)
	return path, nil
}

// keep notes the files that there are of ours outside of the directory state, and those that are about to be made. b.mu is held.
func (b *Mailbox) keep(files ...string) error {
	for dir := range b.listeners {
		files = append(files, filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock"))
	}
	for _, l := range b.listed {
		files = append(files, l.files...)
	}
	return os.WriteFile(b.note(os.Getpid()), []byte(strings.Join(files, "\n")+"\n"), 0o600)
}

// Sweep removes the files of processes of ours that were killed. What it cannot remove is in nobody's way.
// A mailbox that begins to listen does so, too.
func (b *Mailbox) Sweep() {
	notes, _ := os.ReadDir(b.state)
	for _, n := range notes {
		pid, err := strconv.Atoi(n.Name())
		if err != nil || pid == os.Getpid() || running(pid) {
			continue
		}
		files, err := os.ReadFile(b.note(pid))
		if err != nil {
			continue
		}
		for path := range strings.Lines(string(files)) {
			path = strings.TrimSuffix(path, "\n")
			if rest, ok := strings.CutPrefix(filepath.Base(path), n.Name()); ok && (rest[:1] == "." || rest[:1] == "-") {
				_ = os.Remove(path)
			}
		}
		_ = os.Remove(b.note(pid))
	}
}

// running reports whether a process may run.
func running(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Listen opens our socket next to a session's.
func (b *Mailbox) Listen(beside transcript.Process) error {
	_, err := b.listen(filepath.Dir(beside.Socket))
	return err
}

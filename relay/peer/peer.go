// Package peer writes to sessions of Claude Code through the sockets that they use among themselves.
//
// The format is private to Claude Code. It was measured:
//
//   - A message is two lines on a connection of its own, and gets no answer there. The sender
//     listens at PID.sock in the directory of the session's socket, where PID is its own process.
//     It gets a [Notice] there if the message is held for the person, refused or dropped. A
//     message that is taken gets no notice: the session's transcript shows that it was queued
//     and, by its id, that the model got it.
//   - Of more than 30 messages at once, the others are dropped; after that, one in 2 s is taken. A
//     text that is repeated within 30 s is dropped, too, under whatever id.
//   - A session that bypasses permissions asks its person first, unless the message declares that
//     its sender bypasses them, too. We have no such mode, and declare nothing.
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

// MaxText is the limit of a text, in bytes. A session drops messages that are larger than 1 MiB as JSON, and
// JSON can need six bytes for one.
const MaxText = 150 << 10

// The limits of a session, a little stricter than measured.
const (
	Burst  = 28                      // messages at once
	Refill = 2200 * time.Millisecond // the time until one more message is taken
	Repeat = 40 * time.Second        // the time until an equal text is taken again
	Queue  = 40                      // messages that wait in the session; the documented limit is 50
)

// Operator is the default name of a sender.
const Operator = "operator"

// Message is a message to a session.
type Message struct {
	ID   string // a UUID, which the session's transcript repeats
	From string // the sender's name, for the agent; by default [Operator]
	Text string
	Try  int // from 1; makes the message differ from an earlier try, which was dropped
}

// Check returns an error if a message must not be sent. Its text must not be empty, longer than [MaxText] or
// invalid UTF-8, and the sender's name must not contain a character that ends an attribute.
func (m Message) Check() error {
	switch {
	case strings.TrimSpace(m.Text) == "":
		return errors.New("the text is empty")
	case !utf8.ValidString(m.Text):
		return errors.New("the text is not valid UTF-8")
	case len(m.Text) > MaxText:
		return fmt.Errorf("the text is %d bytes too long: a session takes %d; put it into a file and send the path", len(m.Text)-MaxText, MaxText)
	case !utf8.ValidString(m.From) || strings.ContainsFunc(m.From, func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`"<>&`, r) }):
		return fmt.Errorf("the sender %q has quotes, brackets or control characters", m.From)
	}
	return nil
}

// closing begins the end of a message. Within a text, the model would take it for the end.
const closing = "</cross-session-message"

// wrapped returns the message in Claude Code's form. Claude Code's own attributes are from, from-name and
// from-mode; it ignores the others.
func (m Message) wrapped(from string) string {
	try := ""
	if m.Try > 1 {
		try = ` try="` + strconv.Itoa(m.Try) + `"`
	}
	return fmt.Sprintf("<cross-session-message from=%q from-name=%q message-id=%q%s>\n%s\n%s>", from, cmp.Or(m.From, Operator), m.ID, try,
		strings.ReplaceAll(m.Text, closing, "&lt;"+closing[1:]), closing)
}

// Queued returns the id of one of our messages, given its text in a transcript of Claude Code's queue.
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

	Token string `json:"token,omitempty"` // for the type auth

	Action  string   `json:"action,omitempty"` // for the type control
	Of      string   `json:"orig_msg_id,omitempty"`
	Status  string   `json:"status,omitempty"`
	Detail  string   `json:"status_detail,omitempty"` // "refused", with the status expired
	State   string   `json:"state,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Drop    string   `json:"drop_reason,omitempty"`
	Dropped []string `json:"dropped_msg_ids,omitempty"`
}

type content struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Status is a session's report on a message that it has not simply taken.
type Status string

// The statuses.
const (
	Held      Status = "held"      // until its person allows the message
	Denied    Status = "denied"    // by its person
	Delivered Status = "delivered" // after it was held
	Expired   Status = "expired"   // its person did not allow it in time
	Refused   Status = "refused"   // the session's settings refuse all messages
	Dropped   Status = "dropped"   // too many messages, or a repeated text

	idle   Status = "idle" // this and exited answer [Mailbox.Idle]
	exited Status = "exited"
)

// Notice is a session's last report on a message.
type Notice struct {
	Status Status
	Reason string // the reason, for people

	Repeated bool // the message was dropped because its text was repeated
}

// Mailbox receives the reports of sessions. It has a socket in each directory with a session's socket. It is
// safe for concurrent use. Close it.
type Mailbox struct {
	state string // the directory of notes about our files
	take  func(Incoming)

	mu        sync.Mutex
	listeners map[string]net.Listener // by directory
	notices   map[string]Notice       // by the id of the message
	to        map[string]int          // the process to which a message was sent, by the id of the message
	told      chan struct{}           // closed, and replaced, at each notice
	taken     map[int]*rate.Limiter   // by the process that writes to us
	listed    map[string]*listing     // by directory; without a listing, sessions know us only from our messages
}

// Open returns a mailbox. It begins to listen with its first message. It notes its sockets in the directory
// state, so that [Mailbox.Sweep] of another mailbox can remove them after a kill. It calls take,
// concurrently, with messages that agents write to us; it drops those that come faster than a session would
// take them.
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

// Notice returns the last notice of a message, if any, and a channel that is closed at the next notice of any
// message.
func (b *Mailbox) Notice(id string) (n Notice, found bool, next <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, found = b.notices[id]
	return n, found, b.told
}

// Forget discards the notices of a message.
func (b *Mailbox) Forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.notices, id)
	delete(b.to, id)
}

func unsent(err error) error { return &delivery.UnsentError{Err: err} }

// Send writes a message to a session that listens. The message must have been checked. After an error other
// than a [*delivery.UnsentError], the session may have the message.
func (b *Mailbox) Send(ctx context.Context, root string, to transcript.Process, m Message) error {
	return b.send(ctx, root, to, func(from string) frame {
		return frame{ID: m.ID, Type: "user", Message: &content{"user", m.wrapped(from)}, Priority: "next"}
	})
}

// Idle waits until a session reports that it is idle, or that it ends. An idle session reports at once. The
// request counts as a message: see [Burst].
func (b *Mailbox) Idle(ctx context.Context, root string, to transcript.Process) error {
	id := uuid.NewString()
	defer b.Forget(id)
	if err := b.send(ctx, root, to, func(string) frame { return frame{ID: id, Type: "control", Action: "notify_when_idle"} }); err != nil {
		return err
	}
	for {
		n, told, next := b.Notice(id)
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

// send writes a frame to a session. made returns the frame for our address.
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

// key is the content of the key file of a socket. A sender must prove that it can read the file.
type key struct {
	Token  string `json:"peerToken"`
	Start  string `json:"procStart"`
	Domain string `json:"pidDomain"`
}

func keyFile(root string, pid int, socket string) string {
	sum := sha256.Sum256([]byte(socket))
	return filepath.Join(root, "sessions", strconv.Itoa(pid)+"."+hex.EncodeToString(sum[:])+".key")
}

// token returns the token that a session expects before a message.
func token(root string, p transcript.Process) (string, error) {
	path := keyFile(root, p.PID, p.Socket)
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token of the session with pid %d: %w", p.PID, err)
	}
	var k key
	if err := json.Unmarshal(data, &k); err != nil || k.Token == "" {
		return "", fmt.Errorf("%s has no peerToken", path)
	}
	return k.Token, nil
}

// listen returns the path of our socket in a directory. It opens the socket if necessary.
func (b *Mailbox) listen(dir string) (string, error) {
	path := filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock")
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.listeners[dir]; l != nil {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			return path, nil
		}
		_ = l.Close() // no session can connect to it any more
		delete(b.listeners, dir)
	}
	if err := os.MkdirAll(b.state, 0o700); err != nil {
		return "", err
	}
	b.Sweep()
	// The earlier process with our id has ended.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err := b.keep(path); err != nil {
		return "", err
	}
	l, err := socket.Listen(path)
	if err != nil {
		return "", fmt.Errorf("listen next to the sessions: %w", err)
	}
	b.listeners[dir] = l
	go b.serve(l)
	return path, nil
}

// keep notes our files outside the directory state, including those that are about to be made. The caller
// holds b.mu.
func (b *Mailbox) keep(files ...string) error {
	for dir := range b.listeners {
		files = append(files, filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock"))
	}
	for _, l := range b.listed {
		files = append(files, l.files...)
	}
	return os.WriteFile(b.note(os.Getpid()), []byte(strings.Join(files, "\n")+"\n"), 0o600)
}

// Sweep removes the files of our killed processes. It ignores errors, because leftovers are harmless. A
// mailbox that begins to listen calls it, too.
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
			rest, ok := strings.CutPrefix(filepath.Base(path), n.Name())
			if ok && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "-")) { // not so if a full disk has cut the note
				_ = os.Remove(path)
			}
		}
		_ = os.Remove(b.note(pid))
	}
}

// running reports whether a process may be running.
func running(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Listen opens our socket next to a session's socket.
func (b *Mailbox) Listen(beside transcript.Process) error {
	_, err := b.listen(filepath.Dir(beside.Socket))
	return err
}

package peer

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"teambridge/relay/process"
)

// Incoming is a message that an agent wrote to us with its own tool, or that claims to be one.
type Incoming struct {
	ID   string // the id that its session chose
	PID  int    // the process that has connected; 0 if unknown
	Name string // the session's own name for itself
	Text string
}

// NewBucket returns a limiter that allows [Burst] messages at once, and one more after each refill.
func NewBucket(refill time.Duration) *rate.Limiter { return rate.NewLimiter(rate.Every(refill), Burst) }

// serve accepts connections of sessions that write to us.
func (b *Mailbox) serve(l net.Listener) {
	const most = 16 // connections at a time
	slots := make(chan struct{}, most)
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files
			time.Sleep(10 * time.Millisecond)
			continue
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			defer c.Close()
			b.read(c.(*net.UnixConn))
		}()
	}
}

// read processes the lines of one connection.
func (b *Mailbox) read(c *net.UnixConn) {
	const most = 1 << 20
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	pid := process.Peer(c)
	lines := bufio.NewScanner(io.LimitReader(c, most))
	lines.Buffer(nil, most)
	for lines.Scan() {
		var f frame
		if json.Unmarshal(lines.Bytes(), &f) != nil {
			continue
		}
		var q qwenNotice
		_ = json.Unmarshal(lines.Bytes(), &q) // the same line in Qwen Code's form
		switch {
		case f.Type == "user" && f.Message != nil && b.Admits(pid):
			name, text := unwrapped(f.Message.Content)
			b.take(Incoming{ID: cmp.Or(f.ID, q.ID), PID: pid, Name: cmp.Or(name, q.Name), Text: text})
		case f.Type == "control" && f.Action == "peer_message_status":
			status := Status(f.Status)
			if f.Detail == string(Refused) {
				status = Refused
			}
			for _, id := range append(f.Dropped, f.Of) {
				b.notice(id, pid, Notice{Status: status, Reason: cmp.Or(f.Drop, f.Reason)}, nil)
			}
		case f.Type == "control" && f.Action == "peer_idle_notice":
			b.notice(f.Of, pid, Notice{Status: Status(f.State)}, nil)
		case f.Type == "control" && f.Action == "delivery_status":
			for _, id := range append(q.Dropped, q.Of) {
				b.notice(id, pid, Notice{Status: Status(f.Status), Reason: cmp.Or(q.Drop, f.Reason)}, qwenStatus)
			}
		}
	}
}

// Admits reports whether a process may write one more message to us, and counts that message. The mailbox
// drops messages that are not admitted. All unknown processes count as process 0.
func (b *Mailbox) Admits(pid int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for pid, other := range b.taken { // forget a process that has been quiet for long: it equals a new one
		if other.TokensAt(now) >= Burst {
			delete(b.taken, pid)
		}
	}
	if b.taken[pid] == nil {
		b.taken[pid] = NewBucket(Refill)
	}
	return b.taken[pid].AllowN(now, 1)
}

// unwrapped returns the text in the wrapper of a message, and the sender's own name for itself.
func unwrapped(content string) (name, text string) {
	head, text, ok := strings.Cut(content, ">\n")
	if !ok || !strings.HasPrefix(head, "<cross-session-message ") {
		return "", content
	}
	if _, rest, ok := strings.Cut(head, ` from-name="`); ok {
		name, _, _ = strings.Cut(rest, `"`)
	}
	if i := strings.LastIndex(text, "\n"+closing); i >= 0 {
		text = text[:i]
	}
	return name, text
}

// notice records a notice of a process; pid is 0 if the process is unknown. A notice counts only if it comes
// from the session that got the message. after, if not nil, returns the status that results from the last
// notice and this one, and whether it is new.
func (b *Mailbox) notice(id string, pid int, n Notice, after func(was, now Status) (Status, bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	to, sent := b.to[id]
	if !sent || pid != 0 && pid != to {
		return
	}
	if after != nil {
		var news bool
		if n.Status, news = after(b.notices[id].Status, n.Status); !news {
			return
		}
	}
	n.Repeated = strings.Contains(n.Reason, "duplicate") // both programs use this word
	b.notices[id] = n
	close(b.told)
	b.told = make(chan struct{})
}

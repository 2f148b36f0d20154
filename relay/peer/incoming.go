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

// Incoming is what an agent wrote to us with its own tool, or what somebody says that one did.
type Incoming struct {
	ID   string // that its session gave it
	PID  int    // of the process that has connected; 0 if the system does not tell
	Name string // of its session, as it says itself
	Text string
}

// NewBucket returns what limits messages to [Burst] at once, and one more after each refill.
func NewBucket(refill time.Duration) *rate.Limiter { return rate.NewLimiter(rate.Every(refill), Burst) }

// serve takes what sessions write to us.
func (b *Mailbox) serve(l net.Listener) {
	const most = 16 // connections at a time
	slots := make(chan struct{}, most)
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many files
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

// read takes the lines of one connection.
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
		_ = json.Unmarshal(lines.Bytes(), &q) // the same line
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

// Admits reports whether a process may write one more message to us, and counts that. Take is not called with what it does
// not admit. 0 stands for all that nobody knows.
func (b *Mailbox) Admits(pid int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for pid, other := range b.taken { // one that has been quiet for long is as a new one
		if other.TokensAt(now) >= Burst {
			delete(b.taken, pid)
		}
	}
	if b.taken[pid] == nil {
		b.taken[pid] = NewBucket(Refill)
	}
	return b.taken[pid].AllowN(now, 1)
}

// unwrapped is the text in the wrapper of a message, and the name that its sender gives itself.
func unwrapped(content string) (name, text string) {
	head, text, ok := strings.Cut(content, ">\n")
	if !ok || !strings.HasPrefix(head, "<cross-session-message ") {
		return "", content
	}
	if _, rest, ok := strings.Cut(head, ` from-name="`); ok {
		name, _, _ = strings.Cut(rest, `"`)
	}
	text, _, _ = strings.Cut(text, "\n"+closing)
	return name, text
}

// notice takes a notice from a process; 0 if it is not known. Only the session that has the message can say
// something of it. after, if not nil, says what the notice means after the last one, if it says anything new.
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
	n.Repeated = strings.Contains(n.Reason, "duplicate") // as both programs name it
	b.notices[id] = n
	close(b.told)
	b.told = make(chan struct{})
}

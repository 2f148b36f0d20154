package peer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/teams/proc"
)

// Sessions of Qwen Code have sockets like those of Claude Code, with a published protocol:
//
//   - A message is taken, held, refused or dropped, and the session says so. Its transcript does not name the id of the message.
//   - An id that comes again while the process lives is answered as before, and not shown again.
//   - Who presents the token of the session's file must say in which mode it asks its own person. We have no such mode, say nothing, and the
//     message is held. With the token that the session gives its own children it is not.
//   - Above 30 at once and one in two seconds, and a text again within 30 s, are dropped as in Claude Code.

// QwenSession is a session of Qwen Code that a message is sent to.
type QwenSession struct {
	PID    int
	Socket string
	ID     string
	Token  string // what is presented first; "": nothing
}

// Returned means that a session of Qwen Code has a message no more, and that its model was never given it. It can be sent again.
const Returned Status = "returned"

// qwenFrame is a line on a socket of Qwen Code.
type qwenFrame struct {
	Version  int      `json:"msgV"`
	ID       string   `json:"msgId,omitempty"`
	Type     string   `json:"type"`
	From     string   `json:"from,omitempty"`
	Name     string   `json:"fromName,omitempty"`
	To       string   `json:"toSessionId,omitempty"`
	Priority string   `json:"priority,omitempty"`
	Message  *content `json:"message,omitempty"`

	Token string `json:"token,omitempty"` // of type auth
}

// qwenNotice are the members of a line of Qwen Code that have other names than those of Claude Code.
type qwenNotice struct {
	ID      string   `json:"msgId"`
	Name    string   `json:"fromName"`
	Of      string   `json:"origMsgId"`
	Drop    string   `json:"dropReason"`
	Dropped []string `json:"droppedMsgIds"`
}

// SendQwen is [Mailbox.Send] for a session of Qwen Code. Try is not sent.
func (b *Mailbox) SendQwen(ctx context.Context, to QwenSession, m Message) error {
	from, err := b.listen(filepath.Dir(to.Socket))
	if err != nil {
		return unsent(err)
	}
	lines := []any{qwenFrame{
		Version: 1, ID: m.ID, Type: "user", From: from, Name: cmp.Or(m.From, Operator), To: to.ID, Priority: "next", Message: &content{"user", m.Text},
	}}
	if to.Token != "" {
		lines = append([]any{qwenFrame{Version: 1, Type: "auth", Token: to.Token}}, lines...)
	}
	return b.put(ctx, to.PID, to.Socket, m.ID, lines...)
}

// qwenStatus is what a session of Qwen Code says of a message after it has said was, if it says anything new. What it says can
// come in another order.
func qwenStatus(was, now Status) (Status, bool) {
	if now == "misaddressed" || now == Expired && was != Held { // as it ended
		return Returned, true
	}
	return now, was != Delivered || now == Delivered
}

// ListQwen is [Mailbox.List] for the sessions of Qwen Code, given its directory and the socket of one. start is when this process
// started, in ticks.
func (b *Mailbox) ListQwen(home, name, start, beside string) error {
	boot, err := proc.Boot()
	if err != nil {
		return err // those sessions want it
	}
	within, err := proc.Namespace()
	if err != nil {
		return err
	}
	space, err := strconv.ParseUint(strings.Trim(within, "pid:[]"), 10, 64)
	if err != nil {
		return fmt.Errorf("the namespace of processes is %q: %w", within, err)
	}
	// A name that no other process has: PID.json can be left of one that had our id, or be one of another namespace.
	id := boot + ":" + start
	sum := sha256.Sum256([]byte(id))
	path := filepath.Join(home, "sessions", fmt.Sprintf("%d-%x.json", os.Getpid(), sum[:4]))
	return b.list(home, name, filepath.Dir(beside), func(socket string) []described {
		return []described{{path, map[string]any{
			"schemaVersion": 1, "pid": os.Getpid(), "procStart": id, "pidNs": space, "sessionId": uuid.NewString(), "cwd": "/", "name": name,
			"startedAt": time.Now().UnixMilli(), "kind": "external", "ipcPath": socket,
		}}}
	})
}

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
//   - The session reports whether a message was taken, held, refused or dropped. Its transcript does not name the id of the message.
//   - While the process lives, a repeated id gets the same answer as before, and is not shown again.
//   - A sender with the token of the session's file must declare its own permission mode. We have no such mode, and declare nothing, so the
//     message is held. A message with the token that the session gives its own children is not held.
//   - As in Claude Code, more than 30 messages at once, more than one in two seconds, and a text that is repeated within 30 s are dropped.

// QwenSession is a session of Qwen Code that messages are sent to.
type QwenSession struct {
	PID    int
	Socket string
	ID     string
	Token  string // sent first; "" for none
}

// Returned means that a session of Qwen Code no longer has a message, and that its model never got it. The
// message can be sent again.
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

	Token string `json:"token,omitempty"` // for the type auth
}

// qwenNotice has the fields of a line of Qwen Code whose names differ from Claude Code's.
type qwenNotice struct {
	ID      string   `json:"msgId"`
	Name    string   `json:"fromName"`
	Of      string   `json:"origMsgId"`
	Drop    string   `json:"dropReason"`
	Dropped []string `json:"droppedMsgIds"`
}

// SendQwen is [Mailbox.Send] for a session of Qwen Code. It ignores Try.
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

// qwenStatus returns the status of a message after a further notice, and whether it is new. Notices may
// arrive out of order.
func qwenStatus(was, now Status) (Status, bool) {
	if now == "misaddressed" || now == Expired && was != Held { // the session has ended
		return Returned, true
	}
	return now, was != Delivered || now == Delivered
}

// ListQwen is [Mailbox.List] for the sessions of Qwen Code. home is Qwen Code's directory, beside the socket
// of a session, and start when this process started, in ticks.
func (b *Mailbox) ListQwen(home, name, start, beside string) error {
	boot, err := proc.Boot()
	if err != nil {
		return err // those sessions require it
	}
	within, err := proc.Namespace()
	if err != nil {
		return err
	}
	space, err := strconv.ParseUint(strings.Trim(within, "pid:[]"), 10, 64)
	if err != nil {
		return fmt.Errorf("the namespace of processes is %q: %w", within, err)
	}
	// The file's name is unique to this process: PID.json may belong to an earlier process with our id, or to
	// one of another namespace.
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

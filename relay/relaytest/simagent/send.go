package simagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ErrUnreachable is the answer to a message for a name that is not in config.json, "user"
// included.
var ErrUnreachable = errors.New("no agent of that name is reachable")

// ErrName says that a name cannot be the name of an inbox: it is empty, a dot
// name, or holds a separator or a control character.
var ErrName = errors.New("not the name of a member")

// Message is a message of an agent to another member, as with its SendMessage tool.
type Message struct {
	To      string // a member's name
	Text    string
	Summary string // may be empty, then the row has none
}

// row is a message in the key order of Claude Code.
type row struct {
	From      string `json:"from"`
	Text      string `json:"text"`
	Summary   string `json:"summary,omitempty"`
	Timestamp string `json:"timestamp"`
	Color     string `json:"color,omitempty"`
	MsgV      int    `json:"msgV"`
	MsgID     string `json:"msg_id"`
	Type      string `json:"type"`
	Read      bool   `json:"read"`
}

// Send writes a message into another member's inbox, and returns the bytes of the row. It needs no Run. It waits for the
// inbox's lock as long as ctx lives. Errors: [ErrName], [ErrUnreachable],
// [ErrBlocked], [fs.ErrNotExist] when the team is gone.
func (a *Agent) Send(ctx context.Context, m Message) (json.RawMessage, error) {
	known, err := a.config.has(ctx, m.To)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("simagent: send from %s to %q: %w", a.opts.Name, m.To, ErrUnreachable)
	}
	return a.post(ctx, a.opts.Now(), m)
}

// RequestShutdown writes a shutdown_request to a member, as the lead does when
// its user dismisses a teammate, and returns the bytes of the row.
func (a *Agent) RequestShutdown(ctx context.Context, member, reason string) (json.RawMessage, error) {
	now := a.opts.Now()
	return a.deliverStructured(ctx, now, member, "type", "shutdown_request", "requestId", fmt.Sprintf("shutdown-%d@%s", now.UnixMilli(), member),
		"from", a.opts.Name, "reason", reason, "timestamp", stamp(now))
}

func (a *Agent) approveShutdown(ctx context.Context, request object) error {
	id, _ := request.text("requestId")
	now := a.opts.Now()
	_, err := a.deliverStructured(ctx, now, Lead, "type", "shutdown_approved", "requestId", id,
		"from", a.opts.Name, "timestamp", stamp(now), "paneId", inProcess, "backendType", inProcess)
	return err
}

// notifyIdle reports the end of a turn to the lead. An agent that goes on at once
// gives no reason for being idle.
func (a *Agent) notifyIdle(ctx context.Context, sent []Message, result string, goesOn bool) error {
	now := a.opts.Now()
	idle := []any{"type", "idle_notification", "from", a.opts.Name, "timestamp", stamp(now)}
	if !goesOn {
		idle = append(idle, "idleReason", "available")
	}
	for _, m := range slices.Backward(sent) {
		// Messages to the lead are not in the summary: it has them itself.
		if m.To != Lead {
			idle = append(idle, "summary", strings.TrimSuffix(fmt.Sprintf("[to %s] %s", m.To, m.Summary), " "))
			break
		}
	}
	if result != "" {
		idle = append(idle, "result", result)
	}
	_, err := a.deliverStructured(ctx, now, Lead, idle...)
	return err
}

// deliverStructured writes an object of these keys and values as the text of a row.
func (a *Agent) deliverStructured(ctx context.Context, now time.Time, to string, pairs ...any) (json.RawMessage, error) {
	text, err := newObject(pairs...)
	if err != nil {
		return nil, err
	}
	return a.post(ctx, now, Message{To: to, Text: string(text)})
}

func (a *Agent) post(ctx context.Context, now time.Time, m Message) (json.RawMessage, error) {
	if err := checkName(m.To); err != nil {
		return nil, fmt.Errorf("simagent: send from %s: %w", a.opts.Name, err)
	}
	out := row{
		From:      a.opts.Name,
		Text:      m.Text,
		Summary:   m.Summary,
		Timestamp: stamp(now),
		Color:     a.opts.Color,
		MsgV:      1,
		MsgID:     uuid.NewString(),
		Type:      "message",
	}
	raw, err := encode(out)
	if err != nil {
		return nil, err
	}
	inboxes := filepath.Join(a.opts.Dir, "inboxes")
	// Mkdir and not MkdirAll, which would bring back a team that has ended.
	if err := os.Mkdir(inboxes, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("simagent: send from %s to %s: %w", a.opts.Name, m.To, err)
	}
	if err := a.ways.deliver(ctx, inboxPath(a.opts.Dir, m.To), raw, a.opts.Now); err != nil {
		return nil, err
	}
	return raw, nil
}

func inboxPath(dir, member string) string { return filepath.Join(dir, "inboxes", member+".json") }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func checkName(name string) error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if name == "" || name[0] == '.' || strings.ContainsAny(name, `/\:`) || strings.ContainsFunc(name, control) {
		return fmt.Errorf("%q: %w", name, ErrName)
	}
	return nil
}

package inbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"teambridge/teams/rawjson"

	"github.com/google/uuid"
)

// Limits of a message, in bytes. They keep a message well below the size at which old versions of Claude Code
// cut lines off.
const (
	MaxText        = 100 << 10 // of the text
	MaxEncodedText = 120 << 10 // of the text as a JSON string
	MaxSummary     = 1 << 10
	MaxID          = 256
	MaxFrom        = 64
)

// colors are the colours that Claude Code knows for a sender.
var colors = []string{"blue", "green", "yellow", "purple", "orange", "pink", "cyan", "red"}

// Message is a message to send. Only From and Text are required.
type Message struct {
	// ID is chosen by the sender: a second send with the same ID does nothing. If it is empty, a new UUID is
	// chosen.
	ID   string
	From string
	// DefaultFrom means that From is a default, not a sender's choice. A message with the same ID and another
	// default name then counts as the same message.
	DefaultFrom bool

	Text    string
	Summary string    // one line, shown next to the sender
	Color   string    // one of the colors that Claude Code knows
	Time    time.Time // zero: now

	// Protocol means that Text may be an object of Claude Code's own protocol, which agents obey: see
	// [Message.CheckProtocol].
	Protocol bool

	// Own means that this process writes for the sender, an agent, as its relay does. Text may then be an
	// object of the protocol in the name of that agent.
	Own bool
}

// InvalidError reports a fault of a message to send.
type InvalidError struct{ Field, Reason string }

func (e *InvalidError) Error() string { return fmt.Sprintf("the %s %s", e.Field, e.Reason) }

// Check returns the first fault of m, as an [*InvalidError].
func (m *Message) Check() error {
	line := func(field, s string, max int) error {
		switch {
		case !utf8.ValidString(s):
			return &InvalidError{field, "is not valid UTF-8"}
		case len(s) > max:
			return &InvalidError{field, fmt.Sprintf("has %d bytes; %d are allowed", len(s), max)}
		case strings.ContainsFunc(s, unicode.IsControl):
			return &InvalidError{field, "holds a control character or a line break"}
		}
		return nil
	}
	if strings.TrimSpace(m.From) == "" {
		return &InvalidError{"sender", "is blank"}
	}
	if err := line("sender", m.From, MaxFrom); err != nil {
		return err
	}
	if m.ID != "" && strings.TrimSpace(m.ID) == "" {
		return &InvalidError{"id", "is blank"}
	}
	if err := cmp.Or(line("id", m.ID, MaxID), line("summary", m.Summary, MaxSummary)); err != nil {
		return err
	}
	switch {
	case m.Color != "" && !slices.Contains(colors, m.Color):
		return &InvalidError{"color", fmt.Sprintf("is %q; there are %s", m.Color, strings.Join(colors, ", "))}
	case !utf8.ValidString(m.Text):
		return &InvalidError{"text", "is not valid UTF-8"}
	case strings.TrimSpace(m.Text) == "":
		return &InvalidError{"text", "is blank"}
	case len(m.Text) > MaxText:
		return &InvalidError{"text", fmt.Sprintf("has %d bytes; %d are allowed", len(m.Text), MaxText)}
	}
	encoded, err := rawjson.Encode(m.Text)
	if err != nil {
		return &InvalidError{"text", err.Error()}
	}
	if len(encoded) > MaxEncodedText {
		return &InvalidError{"text", fmt.Sprintf("has %d bytes as JSON; %d are allowed", len(encoded), MaxEncodedText)}
	}
	return nil
}

// Digest is like [Row.Digest], but ignores a default sender.
func (m *Message) Digest() [32]byte {
	if m.DefaultFrom {
		return digest("", m.Text, m.Summary, m.Color)
	}
	return digest(m.From, m.Text, m.Summary, m.Color)
}

// IsRow reports whether r, which has the id of m, is the same message as m.
func (m *Message) IsRow(r *Row) bool {
	if m.DefaultFrom {
		return r.Text == m.Text && r.Summary == m.Summary && r.Color == m.Color
	}
	return r.Digest() == m.Digest()
}

// namespace is the UUID namespace for ids that are not UUIDs: see msgID.
var namespace = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("teambridge"))

// msgID returns the msg_id for an id. Claude Code writes UUIDs there, so an id of another form is hashed to a
// UUID.
func msgID(id string) string {
	if u, err := uuid.Parse(id); err == nil && len(id) == 36 {
		return u.String()
	}
	return uuid.NewSHA1(namespace, []byte(id)).String()
}

// wireRow is a row in the form that is written: Claude Code's fields in its order, and messageId for tools
// that do not know msg_id.
type wireRow struct {
	From      string `json:"from"`
	Text      string `json:"text"`
	Summary   string `json:"summary,omitempty"`
	Timestamp string `json:"timestamp"`
	Color     string `json:"color,omitempty"`
	MsgV      int    `json:"msgV"`
	MsgID     string `json:"msg_id"`
	Type      string `json:"type"`
	Read      bool   `json:"read"`
	MessageID string `json:"messageId"`
}

// TimestampLayout is the layout of timestamps. It is that of JavaScript's toISOString.
const TimestampLayout = "2006-01-02T15:04:05.000Z"

// row encodes m, which must have an id and a time.
func (m *Message) row() ([]byte, error) {
	return rawjson.Encode(wireRow{
		From: m.From, Text: m.Text, Summary: m.Summary, Color: m.Color,
		Timestamp: m.Time.UTC().Format(TimestampLayout),
		MsgV:      1, MsgID: msgID(m.ID), Type: "message", MessageID: m.ID,
	})
}

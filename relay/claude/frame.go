package claude

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// DefaultFrameLimit is the default of [Options.FrameLimit]. 3 MB arrived whole on 2.1.80 and 2.1.329; older versions are
// reported to cut lines off at about 146 KB.
const DefaultFrameLimit = 128 << 10

// Message is what a person or a program says to the agent.
type Message struct {
	// UUID is what the message is known by; empty for a new one.
	UUID string
	// Text is what is said. A text that begins with "/" is taken as a command by Claude Code.
	Text string
	// Content, if not empty, is said instead of Text: a JSON array of content blocks, as the model API defines them.
	Content json.RawMessage
}

// Frame is one line of input. Make it with [NewFrame], keep its Bytes, and make it again with [ParseFrame], so that a
// second try writes the same bytes.
type Frame struct {
	uuid  string
	line  []byte
	slash bool
	// Older versions do not echo it.
	silent bool
}

// NewFrame encodes a message. A uuid that is none, a text that is blank or not UTF-8, and content that is no array of
// blocks are refused with [ErrInvalid].
func NewFrame(m Message) (Frame, error) {
	if m.UUID == "" {
		m.UUID = uuid.NewString()
	}
	var content any = m.Text
	if len(m.Content) > 0 {
		content = m.Content
	} else if !utf8.ValidString(m.Text) {
		// The encoder would replace what is not UTF-8: a message that was changed is worse than one refused.
		return Frame{}, fmt.Errorf("claude: frame %s: %w: text is not UTF-8", m.UUID, ErrInvalid)
	}
	type message struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	}
	line, err := encode(struct {
		Type    string  `json:"type"`
		Message message `json:"message"`
		UUID    string  `json:"uuid"`
	}{"user", message{"user", content}, m.UUID})
	if err != nil {
		return Frame{}, fmt.Errorf("claude: frame %s: %w: %w", m.UUID, ErrInvalid, err)
	}
	return ParseFrame(line)
}

// ParseFrame takes a line without its newline, such as [Frame.Bytes]. A line that could do anything but hand one user's
// message to the agent is refused with [ErrInvalid].
func ParseFrame(line []byte) (Frame, error) {
	fail := func(format string, args ...any) (Frame, error) {
		return Frame{}, fmt.Errorf("claude: frame: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case bytes.ContainsAny(line, "\r\n"):
		return fail("holds a line break")
	case !utf8.Valid(line):
		return fail("is not UTF-8")
	}
	// Maps, because a struct would also take keys in another case, which the program does not know.
	var whole, message map[string]json.RawMessage
	if err := json.Unmarshal(line, &whole); err != nil {
		return fail("is no JSON object: %v", err)
	}
	if err := json.Unmarshal(whole["message"], &message); err != nil {
		return fail("its message is no JSON object: %v", err)
	}
	if kind := text(whole["type"]); kind != "user" {
		return fail("its type is %.40q, must be \"user\"", kind)
	}
	if role := text(message["role"]); role != "user" {
		return fail("its role is %.40q, must be \"user\"", role)
	}
	id := text(whole["uuid"])
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return fail("its uuid is %.60q, must be a UUID in lower case", id)
	}
	f := Frame{uuid: id, line: bytes.Clone(line)}
	var blocks []map[string]json.RawMessage
	if said := text(message["content"]); strings.TrimSpace(said) != "" {
		f.slash = strings.HasPrefix(strings.TrimSpace(said), "/")
		f.silent = f.slash || strings.Contains(said, "<teammate-message")
	} else if err := json.Unmarshal(message["content"], &blocks); err != nil || len(blocks) == 0 {
		return fail("its content is neither a text that says something nor a list of blocks")
	}
	return f, nil
}

// Fits returns an [ErrInvalid] if the frame is larger than Options.FrameLimit.
func (o Options) Fits(f Frame) error {
	if limit := cmp.Or(o.FrameLimit, DefaultFrameLimit); len(f.line) > limit {
		return fmt.Errorf("claude: frame %s: %w: has %d bytes, over the limit of %d; older versions cut long lines off", f.uuid, ErrInvalid, len(f.line), limit)
	}
	return nil
}

// UUID is what the frame is known by.
func (f Frame) UUID() string { return f.uuid }

// Bytes is the line, without a newline. It must not be changed.
func (f Frame) Bytes() []byte { return f.line }

// IsSlash reports whether Claude Code takes the frame as a command, which older versions do not remember.
func (f Frame) IsSlash() bool { return f.slash }

// IsSilent reports whether older versions acknowledge the frame with init and result alone, also after a resume: commands,
// and texts that hold a teammate's message anywhere (measured on 2.1.80).
func (f Frame) IsSilent() bool { return f.silent }

// text is the string that the JSON holds, or "".
func text(data json.RawMessage) string {
	var s string
	if json.Unmarshal(data, &s) != nil {
		return ""
	}
	return s
}

// encode is one line of JSON without its newline. < and >, which every teammate's message has, stay one byte each.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

package claude

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/teams/rawjson"
	"teambridge/teams/transcript"
)

// DefaultFrameLimit is the default of [Options.FrameLimit]. Larger frames work (3 MB arrives whole), but fill
// the model's context, which Claude Code then compacts.
const DefaultFrameLimit = 128 << 10

// NewFrame encodes a text under an id. It refuses with [ErrInvalid] an id that is not a UUID, and a text that
// is blank or not UTF-8. Claude Code treats a text that begins with "/" as a command.
func NewFrame(id, text string) (agent.Frame, error) {
	if !utf8.ValidString(text) {
		// The encoder would replace invalid UTF-8: a changed message is worse than a refused one.
		return agent.Frame{}, fmt.Errorf("claude: frame %s: %w: text is not UTF-8", id, ErrInvalid)
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	line, err := rawjson.Encode(struct {
		Type    string  `json:"type"`
		Message message `json:"message"`
		UUID    string  `json:"uuid"`
	}{"user", message{"user", text}, id})
	if err != nil {
		return agent.Frame{}, fmt.Errorf("claude: frame %s: %w: %w", id, ErrInvalid, err)
	}
	return ParseFrame(line)
}

// ParseFrame parses a line of [NewFrame], so that a second try writes the same bytes. It refuses with
// [ErrInvalid] any line that is not exactly one user message.
//
// Claude Code treats a text that begins with "/" as a command, and may not record it under this id.
func ParseFrame(line []byte) (agent.Frame, error) {
	fail := func(format string, args ...any) (agent.Frame, error) {
		return agent.Frame{}, fmt.Errorf("claude: frame: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case bytes.ContainsAny(line, "\r\n"):
		return fail("holds a line break")
	case !utf8.Valid(line):
		return fail("is not UTF-8")
	}
	// Maps, because a struct would accept keys in another case, which Claude Code does not know.
	var whole, message map[string]json.RawMessage
	if err := json.Unmarshal(line, &whole); err != nil {
		return fail("is no JSON object: %v", err)
	}
	if err := json.Unmarshal(whole["message"], &message); err != nil {
		return fail("its message is no JSON object: %v", err)
	}
	if kind := transcript.String(whole["type"]); kind != "user" {
		return fail("its type is %.40q, must be \"user\"", kind)
	}
	if role := transcript.String(message["role"]); role != "user" {
		return fail("its role is %.40q, must be \"user\"", role)
	}
	id := transcript.String(whole["uuid"])
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return fail("its uuid is %.60q, must be a UUID in lower case", id)
	}
	f := agent.Frame{UUID: id, Line: bytes.Clone(line)}
	var blocks []map[string]json.RawMessage
	if said := transcript.String(message["content"]); strings.TrimSpace(said) != "" {
		f.Command = strings.HasPrefix(strings.TrimSpace(said), "/")
	} else if err := json.Unmarshal(message["content"], &blocks); err != nil || len(blocks) == 0 {
		return fail("its content is neither a text that says something nor a list of blocks")
	}
	return f, nil
}

// fits returns an [ErrInvalid] if the frame is larger than Options.FrameLimit.
func (o Options) fits(f agent.Frame) error {
	if limit := cmp.Or(o.FrameLimit, DefaultFrameLimit); len(f.Line) > limit {
		return fmt.Errorf("claude: frame %s: %w: has %d bytes, over the limit of %d", f.UUID, ErrInvalid, len(f.Line), limit)
	}
	return nil
}

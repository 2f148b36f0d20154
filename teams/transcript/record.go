package transcript

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Record is one line of a transcript, as far as anything here depends on it.
type Record struct {
	Type, Subtype string
	UUID          string
	Parent        string `json:"parentUuid"`
	LogicalParent string `json:"logicalParentUuid"` // across a compaction
	Timestamp     string // see [Record.Time]

	Version        string // of Claude Code, as it writes it: "2.1.329"
	Agent          string `json:"agentName"` // the teammate's name; empty for a lead
	Team           string `json:"teamName"`  // the team's name; empty where there is none yet
	Entrypoint     string // of the program: "cli", or "sdk-cli" if it is headless
	PermissionMode string

	Sidechain bool `json:"isSidechain"`       // it is a subagent's
	Meta      bool `json:"isMeta"`            // for the model alone
	Summary   bool `json:"isCompactSummary"`  // what is left of a conversation that was compacted
	APIError  bool `json:"isApiErrorMessage"` // the model API failed
	Replay    bool `json:"isReplay"`          // in the output of a headless process: a frame printed back
	Synthetic bool `json:"isSynthetic"`       // in the same: not the user's

	// Origin says where the text of a user record comes from.
	Origin Origin
	// Message is the message of a user or an assistant record.
	Message struct {
		ID      string // each block of a message can be a record of its own
		Model   string
		Stop    string          `json:"stop_reason"`
		Content json.RawMessage // see [Blocks]
		Usage   json.RawMessage
	}
	Operation string          // of a queue-operation record: see [Queue]
	Content   json.RawMessage // of the same, and of system records
	// Attachment is, with the type queued_command, what the model was given in the middle of a turn.
	Attachment struct {
		Origin Origin
		Type   string
		Prompt json.RawMessage
		Source string `json:"source_uuid"`
		Mode   string `json:"commandMode"`
	}
	// More of the results of tools, and of commands.
	ToolResult  json.RawMessage `json:"toolUseResult"`
	DenialKind  string          `json:"toolDenialKind"`
	BeforeRun   bool            `json:"toolDenialBeforeRun"`
	Decision    Decision        `json:"permissionDecision"`
	Attribution string          `json:"turnAttributionKey"`

	blocks  []Block
	decoded bool // blocks are those of the message
}

// Blocks returns the parts of the message, which are decoded once.
func (r *Record) Blocks() []Block {
	if !r.decoded {
		r.blocks, r.decoded = Blocks(r.Message.Content), true
	}
	return r.blocks
}

// Decision is how a question about a tool was decided, by a person, a rule or a hook.
type Decision struct{ Decision string }

// Parse returns the record of a line. Of a torn line after which another process has written, it
// is the last one. A field of another type than expected is as good as missing.
func Parse(line []byte) (r Record, ok bool) {
	if Decode(line, &r) {
		return r, true
	}
	const mostTries = 64
	for rest, tries := line, 0; len(rest) > 0 && tries < mostTries; tries++ {
		parent, kind := bytes.Index(rest[1:], []byte(`{"parentUuid":`)), bytes.Index(rest[1:], []byte(`{"type":`))
		at := min(uint(parent), uint(kind)) // -1 is the largest
		if at >= uint(len(rest)) {
			break
		}
		rest, r = rest[1+at:], Record{}
		if Decode(rest, &r) && (r.UUID != "" || r.Operation != "") { // else it is a part of a record
			return r, true
		}
	}
	return Record{}, false
}

// Decode is json.Unmarshal of a line of Claude Code, which may hold what is not UTF-8 and fields of
// other types than expected.
func Decode(line []byte, v any) bool {
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	err := json.Unmarshal(line, v)
	_, otherType := err.(*json.UnmarshalTypeError)
	return err == nil || otherType
}

// Origin says where a text in the user's role comes from. What another session wrote is of kind peer, and has the id that it was
// sent under.
type Origin struct {
	Kind string
	ID   string `json:"msg_id"`
}

// Time is when the record was written, in UTC; zero if it does not say.
func (r *Record) Time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, r.Timestamp)
	if err != nil {
		return time.Time{}
	}
	return ValidTime(at)
}

// ValidTime returns a time that another program has written, in UTC; zero if it is not of the years 1970 to 9999. JSON has
// not all others, and one time that cannot be encoded takes the whole answer that it is in.
func ValidTime(at time.Time) time.Time {
	if at = at.UTC(); at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}
	}
	return at
}

// Kind is what a record of type user is.
type Kind int

// The kinds of user records.
const (
	Prompt       Kind = iota
	Command           // a prompt that is a command
	Results           // of tools
	Interrupted       // the user stopped the turn
	Output            // of a local command
	Notification      // a background task has ended: the program begins a turn
	Peer              // another session wrote it: the program begins a turn
	Aside             // for the model alone
)

// Interruption begins what Claude Code notes when the user stops a turn.
const Interruption = "[Request interrupted by user"

// Kind returns what a record of type user is.
func (r *Record) Kind() Kind {
	list := r.Blocks()
	if slices.ContainsFunc(list, func(b Block) bool { return b.Type == "tool_result" }) {
		return Results
	}
	text := textsOf(list, "\n")
	begins := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
	}
	switch {
	case begins(Interruption) && strings.IndexByte(text, ']') == len(text)-1: // else it is a prompt about one
		return Interrupted
	case begins("<local-command-stdout>", "<local-command-stderr>"), begins("Unknown skill: ", "Unknown command: ") && !r.Replay:
		return Output
	case begins("<task-notification>"):
		return Notification
	case begins("<command-name>", "<command-message>"):
		return Command
	case r.Meta && r.Origin.Kind == "peer":
		return Peer
	case r.Meta, r.Summary, r.Synthetic, text == "" && !slices.ContainsFunc(list, func(b Block) bool { return b.Type != "" && b.Type != "text" }):
		return Aside
	}
	return Prompt
}

// Block is a part of a message.
type Block struct {
	Type      string
	Text      string
	Thinking  string
	ID        string // of a call
	Name      string
	Input     json.RawMessage
	ToolUseID string          `json:"tool_use_id"` // the call of a result
	IsError   bool            `json:"is_error"`
	Content   json.RawMessage // of a result
}

// Blocks returns the parts of a content; a string is one text.
func Blocks(content json.RawMessage) (list []Block) {
	if len(content) > 0 && content[0] == '"' {
		list = []Block{{Type: "text"}}
		_ = json.Unmarshal(content, &list[0].Text)
	} else if len(content) > 0 && !Decode(content, &list) {
		return nil
	}
	return list
}

// String returns the string that the JSON holds, or "".
func String(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // another kind of value leaves it empty
	return s
}

// Texts joins the texts of a content.
func Texts(content json.RawMessage, between string) string { return textsOf(Blocks(content), between) }

func textsOf(list []Block, between string) string {
	var texts []string
	for _, b := range list {
		if b.Type == "text" && b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, between)
}

// Said is what the agent said last: the texts of one message.
type Said struct {
	Text    string
	At      time.Time // of the last record of the text
	message string
}

// Add takes a record of type assistant.
func (s *Said) Add(r *Record) {
	if r.Message.ID == "" || r.Message.ID != s.message {
		*s = Said{message: r.Message.ID}
	}
	if text := Texts(r.Message.Content, ""); text != "" {
		s.Text, s.At = s.Text+text, r.Time()
	}
}

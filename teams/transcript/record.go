package transcript

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Record is one line of a transcript, with the fields that the code uses.
type Record struct {
	Type, Subtype string
	UUID          string
	Parent        string `json:"parentUuid"`
	LogicalParent string `json:"logicalParentUuid"` // across a compaction
	Timestamp     string // see [Record.Time]

	Version        string // of Claude Code, as it writes it: "2.1.329"
	Agent          string `json:"agentName"` // the teammate's name; empty for a lead
	Team           string `json:"teamName"`  // the team's name; empty if there is none yet
	Entrypoint     string // of the program: "cli", or "sdk-cli" if it is headless
	PermissionMode string

	Sidechain bool `json:"isSidechain"`       // it is a subagent's
	Meta      bool `json:"isMeta"`            // for the model alone
	Summary   bool `json:"isCompactSummary"`  // the summary of a compacted conversation
	APIError  bool `json:"isApiErrorMessage"` // the model API failed
	Replay    bool `json:"isReplay"`          // in the output of a headless process: a frame printed back
	Synthetic bool `json:"isSynthetic"`       // in the same: a text that is not the user's

	// Origin is the origin of the text of a user record.
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
	Content   json.RawMessage // of a queue-operation or system record
	// Attachment, with the type queued_command, is a prompt that the model got in the middle of a turn.
	Attachment struct {
		Origin Origin
		Type   string
		Prompt json.RawMessage
		Source string `json:"source_uuid"`
		Mode   string `json:"commandMode"`
	}
	// More about the results of tools and commands.
	ToolResult  json.RawMessage `json:"toolUseResult"`
	DenialKind  string          `json:"toolDenialKind"`
	BeforeRun   bool            `json:"toolDenialBeforeRun"`
	Decision    Decision        `json:"permissionDecision"`
	Attribution string          `json:"turnAttributionKey"`

	blocks  []Block
	decoded bool // blocks has the blocks of the message
}

// Blocks returns the parts of the message. It decodes them once.
func (r *Record) Blocks() []Block {
	if !r.decoded {
		r.blocks, r.decoded = Blocks(r.Message.Content), true
	}
	return r.blocks
}

// Decision is the decision on a question about a tool, by a person, a rule or a hook.
type Decision struct{ Decision string }

// Parse returns the record of a line. If another process wrote after a torn record, the line's last record counts. A
// field of an unexpected type counts as missing.
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
		if Decode(rest, &r) && (r.UUID != "" || r.Operation != "") { // otherwise it is only a part of a record
			return r, true
		}
	}
	return Record{}, false
}

// Decode is json.Unmarshal for a line of Claude Code, which may have invalid UTF-8 and fields of unexpected types.
func Decode(line []byte, v any) bool {
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	err := json.Unmarshal(line, v)
	_, otherType := err.(*json.UnmarshalTypeError)
	return err == nil || otherType
}

// Origin is the origin of a text in the user's role. A message of another session has the kind peer, and the id under
// which it was sent.
type Origin struct {
	Kind string
	ID   string `json:"msg_id"`
}

// Time returns when the record was written, in UTC; zero if that is unknown.
func (r *Record) Time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, r.Timestamp)
	if err != nil {
		return time.Time{}
	}
	return ValidTime(at)
}

// ValidTime returns a time that another program has written, in UTC; zero outside the years 1970 to 9999. JSON cannot
// hold all other times, and one such time would make a whole answer impossible to encode.
func ValidTime(at time.Time) time.Time {
	if at = at.UTC(); at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}
	}
	return at
}

// Kind is the kind of a record of type user.
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

// Interruption begins the text that Claude Code records when the user stops a turn.
const Interruption = "[Request interrupted by user"

// Kind returns the kind of a record of type user.
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
	case begins(Interruption) && strings.IndexByte(text, ']') == len(text)-1: // otherwise it is a prompt about one
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

// Blocks returns the parts of a message's content. A string is one text.
func Blocks(content json.RawMessage) (list []Block) {
	if len(content) > 0 && content[0] == '"' {
		list = []Block{{Type: "text"}}
		_ = json.Unmarshal(content, &list[0].Text)
	} else if len(content) > 0 && !Decode(content, &list) {
		return nil
	}
	return list
}

// String returns the string in raw, or "" for other JSON.
func String(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // another type leaves s empty
	return s
}

// Texts joins the texts of a message's content.
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

// Said is the agent's last text, joined from the records of one message.
type Said struct {
	Text    string
	At      time.Time // of the last record of the text
	message string
}

// Add adds a record of type assistant.
func (s *Said) Add(r *Record) {
	if r.Message.ID == "" || r.Message.ID != s.message {
		*s = Said{message: r.Message.ID}
	}
	if text := Texts(r.Message.Content, ""); text != "" {
		s.Text, s.At = s.Text+text, r.Time()
	}
}

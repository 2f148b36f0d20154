package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"teambridge/relay/agent"
	"teambridge/relay/toolcall"
	"teambridge/teams/transcript"
)

// Line is a decoded line of output, or a record of a transcript.
type Line struct {
	transcript.Record
	Output

	// Fields of output, too. A field here with an unexpected type counts as missing.
	ParentTool string          `json:"parent_tool_use_id"`
	ToolUse    string          `json:"tool_use_id"`
	LiveResult json.RawMessage `json:"tool_use_result"`
	Results    []resultMeta    `json:"tool_result_meta"`
	Agents     json.RawMessage
	TaskID     string   `json:"task_id"`
	Tasks      []Task   // those that run
	LostCode   string   `json:"error_code"` // of session_writes_lost
	Lost       []string // of session_writes_lost
}

// Output has the fields that only output has. A line in which one of them has the wrong type cannot be used.
type Output struct {
	Session       string `json:"session_id"`
	Model         string
	ClaudeVersion string `json:"claude_code_version"`
	CommandUUID   string `json:"command_uuid"`
	State         string
	IsError       bool `json:"is_error"`
	Turns         int  `json:"num_turns"`
	Usage         json.RawMessage
	ModelUsage    json.RawMessage
	Result        string
	Reason        string   `json:"terminal_reason"`
	UUIDs         []string `json:"user_message_uuids"`
	Errors        []string
	RequestID     string `json:"request_id"`
	Request       json.RawMessage
	Response      struct {
		Subtype   string
		RequestID string `json:"request_id"`
		Error     string
		Response  json.RawMessage
	}
}

// Task is a background task.
type Task struct {
	ID string `json:"task_id"`
}

// Parse decodes a line of output. It fails if the line is no JSON object, or if a field of [Output] has an unexpected
// type in a line of known type.
func Parse(data []byte) (*Line, error) {
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	l := new(Line)
	err := json.Unmarshal(data, l)
	if _, otherType := err.(*json.UnmarshalTypeError); !otherType {
		return l, err
	}
	switch l.Type {
	case "":
		return l, err
	case "user", "assistant", "result", "command_lifecycle", "control_request", "control_response":
		return l, json.Unmarshal(data, new(Output))
	case "system":
		if l.Subtype == "init" {
			return l, json.Unmarshal(data, new(Output))
		}
	}
	return l, nil // in a line of unknown type, fields may have any form
}

// time returns when the record was made, or the time read if the record has none.
func (l *Line) time(read time.Time) time.Time {
	if at := l.Time(); !at.IsZero() {
		return at
	}
	return read
}

// Outcome returns the end of a turn from its result.
func (l *Line) Outcome() *agent.Result {
	o := &agent.Result{Text: l.Result}
	switch {
	case len(l.Errors) > 0:
		o.Failure = strings.Join(l.Errors, "; ")
	case l.Subtype != "success":
		o.Failure = l.Subtype
	case l.IsError:
		o.Failure = cmp.Or(l.Reason, "the model API failed")
	case l.Turns == 0:
		if why, _, refused := transcript.RefusedBy(l.Result, ""); refused {
			o.Failure = "a UserPromptSubmit hook refused it: " + toolcall.Line(why)
		}
	}
	return o
}

// Texts of the errors with which a process refuses a session and exits.
const (
	SessionTaken   = "already in use"
	SessionUnknown = "No conversation found"
)

// unbegun reports whether a result says that the process could not begin its session, so that no turn has ended.
func (l *Line) unbegun() bool {
	text := strings.Join(l.Errors, "\n")
	return strings.Contains(text, SessionTaken) || strings.Contains(text, SessionUnknown)
}

// texts returns the texts of a message, with the types of other blocks in brackets.
func texts(content json.RawMessage) string {
	var all []string
	for _, b := range transcript.Blocks(content) {
		switch {
		case b.Type == "text":
			all = append(all, b.Text)
		case b.Type != "":
			all = append(all, "["+b.Type+"]")
		}
	}
	return strings.Join(all, "\n")
}

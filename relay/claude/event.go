package claude

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"teambridge/relay/agent"
	"teambridge/teams/transcript"
)

// Payload is the decoded content of a line, the Payload of an [agent.Event]: one of the types below.
type Payload any

// Init is printed at the start of every turn, and not before the first frame.
type Init struct {
	Session        string // the conversation from here on: /clear changes it
	Model          string
	PermissionMode string
	Version        string   // of Claude Code; empty for other programs
	Agents         []string // the names of the profiles that it has loaded, and of its built-in agents
}

// Status is printed when the permission mode changes, by a control request or by the agent itself.
type Status struct {
	PermissionMode string
}

// Echo is a user's frame that the process prints back. [Tracker] decides whether its turn has begun.
type Echo struct {
	UUID string
	// Stamped means that it has a timestamp. An echo without one is of a uuid that was taken before, or of a
	// frame that was joined with the next.
	Stamped bool
}

// Lifecycle is Claude Code's report on a frame. State is queued, started, completed or cancelled.
// A failure of the model API also makes it cancelled; see [Result].
type Lifecycle struct {
	UUID  string
	State string
}

// Assistant is a part of the output of the agent, or of a subagent. Package session makes envelopes of it.
type Assistant struct {
	Tools      []string // that it calls
	Recipients []string // of its messages, by SendMessage; "*" for all members
}

// Result ends a turn.
type Result struct {
	Subtype string   // success, error_during_execution, error_max_turns, …
	IsError bool     // the model API failed; can be true even with success
	Text    string   // the agent's last text
	Reason  string   // why the turn ended: completed, aborted_streaming (an interrupt), api_error, …
	UUIDs   []string // the frames of the turn
	Errors  []string // descriptions of what went wrong
}

// outcome converts the result for the relay.
func (r *Result) outcome() *agent.Result {
	o := &agent.Result{Text: r.Text}
	switch {
	case len(r.Errors) > 0:
		o.Failure = strings.Join(r.Errors, "; ")
	case r.Subtype != "success":
		o.Failure = r.Subtype
	case r.IsError:
		o.Failure = cmp.Or(r.Reason, "the model API failed")
	}
	return o
}

// ControlRequest is a request of the process. It is already answered when the event is read, or is waiting
// for an answer of [agent.Permission].
type ControlRequest struct {
	ID      string
	Subtype string
	Body    json.RawMessage // the request, with its subtype
}

// ControlResponse is the answer to a control request of ours.
type ControlResponse struct {
	ID    string
	Error string          // why the request was refused; empty if it was not
	Body  json.RawMessage // the response's content; nil if it has none
}

// Other is a line of a type that this package does not decode, such as the results of tools.
type Other struct {
	Type, Subtype string
}

// Skipped is a line that could not be used. It changes no state.
type Skipped struct {
	Size   int64  // bytes, without the newline
	Head   string // its beginning, at most 200 bytes
	Reason string
}

// Gap replaces lines that were left out because the consumer was more than [Options.Buffer] behind. Their
// envelopes can be read from the [Transcript].
type Gap struct {
	Events int
	Bytes  int64
}

// Parse decodes a line of output. It fails if the line is no JSON object, or a known field has the wrong
// type. A line of unknown type is an [Other].
func Parse(line []byte) (Payload, error) {
	var l struct {
		Type           string          `json:"type"`
		Subtype        string          `json:"subtype"`
		UUID           string          `json:"uuid"`
		Session        string          `json:"session_id"`
		Timestamp      string          `json:"timestamp"`
		IsReplay       bool            `json:"isReplay"`
		Model          string          `json:"model"`
		PermissionMode string          `json:"permissionMode"`
		Version        string          `json:"claude_code_version"`
		Agents         json.RawMessage `json:"agents"`
		CommandUUID    string          `json:"command_uuid"`
		State          string          `json:"state"`
		IsError        bool            `json:"is_error"`
		Result         string          `json:"result"`
		Reason         string          `json:"terminal_reason"`
		UUIDs          []string        `json:"user_message_uuids"`
		Errors         []string        `json:"errors"`
		RequestID      string          `json:"request_id"`
		Message        struct {
			Content json.RawMessage `json:"content"`
		} `json:"message"`
		Request  json.RawMessage `json:"request"`
		Response struct {
			Subtype   string          `json:"subtype"`
			RequestID string          `json:"request_id"`
			Error     string          `json:"error"`
			Response  json.RawMessage `json:"response"`
		} `json:"response"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		// In a line of unknown type, fields may have any form, so only the type is decoded.
		var kind struct {
			Type    string `json:"type"`
			Subtype string `json:"subtype"`
		}
		if err := json.Unmarshal(line, &kind); err != nil {
			return nil, fmt.Errorf("claude: a line of output: %w", err)
		}
		switch kind.Type {
		case "user", "command_lifecycle", "assistant", "result", "control_request", "control_response":
		default:
			if kind.Type != "system" || kind.Subtype != "init" {
				return Other{kind.Type, kind.Subtype}, nil
			}
		}
		return nil, fmt.Errorf("claude: a line of type %s: %w", kind.Type, err)
	}
	switch l.Type {
	case "system":
		switch {
		case l.Subtype == "status" && l.PermissionMode != "":
			return Status{PermissionMode: l.PermissionMode}, nil
		case l.Subtype == "init":
			var agents []string
			if json.Unmarshal(l.Agents, &agents) != nil {
				agents = nil // the field has another form
			}
			return Init{Session: l.Session, Model: l.Model, PermissionMode: l.PermissionMode, Version: l.Version, Agents: agents}, nil
		}
	case "user":
		if l.IsReplay && l.UUID != "" {
			return Echo{UUID: l.UUID, Stamped: l.Timestamp != ""}, nil
		}
	case "command_lifecycle":
		return Lifecycle{UUID: l.CommandUUID, State: l.State}, nil
	case "assistant":
		var a Assistant
		if bytes.Contains(line, []byte(`"tool_use"`)) {
			for _, b := range transcript.Blocks(l.Message.Content) {
				if b.Type != "tool_use" {
					continue
				}
				a.Tools = append(a.Tools, b.Name)
				if to := recipient(b); to != "" {
					a.Recipients = append(a.Recipients, to)
				}
			}
		}
		return a, nil
	case "result":
		return Result{
			Subtype: l.Subtype, IsError: l.IsError, Text: l.Result, Reason: l.Reason, UUIDs: l.UUIDs, Errors: l.Errors,
		}, nil
	case "control_request":
		var request struct {
			Subtype string `json:"subtype"`
		}
		if err := json.Unmarshal(l.Request, &request); err != nil {
			return nil, fmt.Errorf("claude: a control request: %w", err)
		}
		return ControlRequest{ID: l.RequestID, Subtype: request.Subtype, Body: l.Request}, nil
	case "control_response":
		c := ControlResponse{ID: l.Response.RequestID, Body: l.Response.Response}
		if l.Response.Subtype != "success" {
			c.Error = l.Response.Error
			if c.Error == "" {
				c.Error = fmt.Sprintf("answered with %.40q", l.Response.Subtype)
			}
		}
		return c, nil
	}
	return Other{l.Type, l.Subtype}, nil
}

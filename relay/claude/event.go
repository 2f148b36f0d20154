package claude

import (
	"encoding/json"
	"fmt"

	"teambridge/relay/claude/session"
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

// Echo is a user's frame that the process prints back. [session.Fold] decides whether its turn has begun.
type Echo struct {
	UUID string
	// Stamped means that it has a timestamp. An echo without one belongs to a frame that was taken before, or
	// that was joined with the next frame.
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

// parse decodes a line of output. It fails if the line is no JSON object, or a known field has the wrong type. A line
// of unknown type is an [Other].
func parse(line []byte) (Payload, *session.Line, error) {
	l, err := session.Parse(line)
	if err != nil {
		return nil, nil, fmt.Errorf("claude: a line of output: %w", err)
	}
	p, err := payload(l)
	return p, l, err
}

func payload(l *session.Line) (Payload, error) {
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
			return Init{Session: l.Session, Model: l.Model, PermissionMode: l.PermissionMode, Version: l.ClaudeVersion, Agents: agents}, nil
		}
	case "user":
		if l.Replay && l.UUID != "" {
			return Echo{UUID: l.UUID, Stamped: l.Timestamp != ""}, nil
		}
	case "command_lifecycle":
		return Lifecycle{UUID: l.CommandUUID, State: l.State}, nil
	case "assistant":
		var a Assistant
		for _, b := range l.Blocks() {
			if b.Type != "tool_use" {
				continue
			}
			a.Tools = append(a.Tools, b.Name)
			if to := recipient(b); to != "" {
				a.Recipients = append(a.Recipients, to)
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

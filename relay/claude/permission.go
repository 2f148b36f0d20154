package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Permission answers the questions of a process whether a tool may be used. It asks only about what its permission mode
// and its own rules leave open. A tool in Allow may be used; about others Ask is asked; without Ask they may not.
//
// Allow does not cover what only a person can decide: any use of a tool in plan mode, ExitPlanMode, AskUserQuestion, and
// what Claude Code says requires a person.
type Permission struct {
	// Allow are the names of tools, such as "Read", or "*" for all. It does not look at what they are used for.
	Allow []string
	// Reason is what the agent is told when a tool may not be used; empty is a sentence that says as much.
	Reason string
	// Ask decides on one use, in a goroutine of its own, while only the turn waits. It must return when ctx ends: the
	// process has withdrawn the question or has ended. More than 64 open questions are denied.
	Ask func(ctx context.Context, use Use) Decision
}

// Use is one use of a tool that the agent asks for. Everything in it is the agent's text.
type Use struct {
	Tool  string          // such as "Bash"
	ID    string          // of the tool call
	Input json.RawMessage // of the tool
	Body  json.RawMessage // the whole request, with why it asks and what it suggests
	Mode  string          // the permission mode in force, as the process reported it; empty if it did not
}

// useOf returns what a request asks about. One of another form names no tool.
func useOf(body json.RawMessage) Use {
	var r struct {
		Tool  string          `json:"tool_name"`
		ID    string          `json:"tool_use_id"`
		Input json.RawMessage `json:"input"`
	}
	u := Use{Body: body}
	if err := json.Unmarshal(body, &r); err == nil {
		u.Tool, u.ID, u.Input = r.Tool, r.ID, r.Input
	}
	return u
}

// Decision is the answer to a Use. The zero value denies.
type Decision struct {
	Allow  bool
	Reason string          // what the agent is told if not; empty is the policy's
	Input  json.RawMessage // what the tool is called with instead; empty is what was asked for
}

const denied = "Nobody is there to allow this."

// decide answers at once, if the policy can.
func (p *Permission) decide(u Use) (d Decision, decided bool) {
	switch {
	case p == nil:
		return Decision{}, true
	case !u.forPerson() && (slices.Contains(p.Allow, u.Tool) || slices.Contains(p.Allow, "*")):
		return Decision{Allow: true}, true
	}
	return Decision{}, p.Ask == nil
}

// answer is the line that answers a question.
func (p *Permission) answer(id string, u Use, d Decision) ([]byte, error) {
	var response any
	if d.Allow {
		response = struct {
			Behavior string          `json:"behavior"`
			Input    json.RawMessage `json:"updatedInput"`
		}{"allow", json.RawMessage(cmp.Or(string(d.Input), string(u.Input), "{}"))}
	} else {
		reason := d.Reason
		if p != nil {
			reason = cmp.Or(reason, p.Reason)
		}
		response = struct {
			Behavior string `json:"behavior"`
			Message  string `json:"message"`
		}{"deny", cmp.Or(reason, denied)}
	}
	data, err := encodeAnswer(answerBody{Subtype: "success", RequestID: id, Response: response})
	if err != nil {
		return nil, fmt.Errorf("claude: answer about %s: %w", u.Tool, err)
	}
	return data, nil
}

type answerBody struct {
	Subtype   string `json:"subtype"`
	RequestID string `json:"request_id"`
	Response  any    `json:"response,omitempty"`
	Error     string `json:"error,omitempty"`
}

func encodeAnswer(body answerBody) ([]byte, error) {
	return encode(struct {
		Type     string     `json:"type"`
		Response answerBody `json:"response"`
	}{"control_response", body})
}

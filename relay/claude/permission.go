package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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

	// What a person needs to decide; each may be empty.
	Display     string            // the tool's name for people
	Description string            // of this use
	Reason      string            // why it asks
	BlockedPath string            // the path that the rules do not cover
	Subagent    string            // the id of the subagent that asks; empty for the agent itself
	Suggestions []json.RawMessage // permission updates that Claude Code suggests
}

// NewUse returns what a can_use_tool request asks about. One of another form names no tool.
func NewUse(body json.RawMessage) Use {
	var r struct {
		Tool  string          `json:"tool_name"`
		ID    string          `json:"tool_use_id"`
		Input json.RawMessage `json:"input"`
	}
	u := Use{Body: body}
	if err := json.Unmarshal(body, &r); err == nil {
		u.Tool, u.ID, u.Input = r.Tool, r.ID, r.Input
	}
	var more struct {
		Display     string            `json:"display_name"`
		Description string            `json:"description"`
		Reason      string            `json:"decision_reason"`
		BlockedPath string            `json:"blocked_path"`
		Subagent    string            `json:"agent_id"`
		Suggestions []json.RawMessage `json:"permission_suggestions"`
	}
	_ = json.Unmarshal(body, &more) // a field of another form stays empty
	u.Display, u.Description, u.Reason = more.Display, more.Description, more.Reason
	u.BlockedPath, u.Subagent, u.Suggestions = more.BlockedPath, more.Subagent, more.Suggestions
	return u
}

// Plan returns the plan that an agent wants to leave plan mode with. Older versions do not tell it.
func (u Use) Plan() string {
	var in struct {
		Plan string `json:"plan"`
	}
	if u.Tool == exitPlanMode {
		_ = json.Unmarshal(u.Input, &in) // without a plan, it is empty
	}
	return in.Plan
}

// Asks reports whether the agent asks the person something, which is answered by [Use.Answered].
func (u Use) Asks() bool { return u.Tool == askUserQuestion }

// Leaves reports whether the agent asks to leave plan mode.
func (u Use) Leaves() bool { return u.Tool == exitPlanMode }

// Answered returns the input that answers what the agent asks, for [Decision]. Keys of answers are the questions, each of
// which must be answered.
func (u Use) Answered(answers map[string]string) (json.RawMessage, error) {
	var in map[string]json.RawMessage
	var asked struct {
		Questions []struct {
			Question string `json:"question"`
		} `json:"questions"`
	}
	if !u.Asks() {
		return nil, fmt.Errorf("%s asks nothing that could be answered", u.Tool)
	}
	if err := json.Unmarshal(u.Input, &in); err != nil {
		return nil, fmt.Errorf("the questions cannot be read: %w", err)
	}
	if err := json.Unmarshal(u.Input, &asked); err != nil {
		return nil, fmt.Errorf("the questions cannot be read: %w", err)
	}
	known := map[string]bool{}
	for _, q := range asked.Questions {
		known[q.Question] = true
		if strings.TrimSpace(answers[q.Question]) == "" {
			return nil, fmt.Errorf("there is no answer to %q", q.Question)
		}
	}
	for q := range answers {
		if !known[q] {
			return nil, fmt.Errorf("%q is not asked", q)
		}
	}
	var err error
	if in["answers"], err = json.Marshal(answers); err != nil {
		return nil, err
	}
	return json.Marshal(in)
}

// SessionRule allows uses of tools until the process ends. Claude Code suggests it. The zero value allows nothing.
type SessionRule struct{ rules []toolRule }

type toolRule struct {
	Tool    string `json:"toolName"`
	Content string `json:"ruleContent,omitempty"`
}

// String returns the rule in the syntax of Claude Code's settings, such as "Bash(go test *)".
func (r SessionRule) String() string {
	texts := make([]string, len(r.rules))
	for i, rule := range r.rules {
		if texts[i] = rule.Tool; rule.Content != "" {
			texts[i] += "(" + rule.Content + ")"
		}
	}
	return strings.Join(texts, ", ")
}

// SessionRules returns the rules that a person can choose to allow for the session. Other suggestions are left out:
// together they write settings files and set the mode acceptEdits. There are none for what only a person can decide,
// such as anything in plan mode.
func (u Use) SessionRules() (list []SessionRule) {
	if u.forPerson() {
		return nil
	}
	for _, data := range u.Suggestions {
		var s struct {
			Type     string     `json:"type"`
			Behavior string     `json:"behavior"`
			Rules    []toolRule `json:"rules"`
		}
		blank := func(r toolRule) bool { return r.Tool == "" }
		if json.Unmarshal(data, &s) == nil && s.Type == "addRules" && s.Behavior == "allow" && len(s.Rules) > 0 && !slices.ContainsFunc(s.Rules, blank) {
			list = append(list, SessionRule{s.Rules})
		}
	}
	return list
}

// permissionUpdate is a permission update as Claude Code takes it.
type permissionUpdate struct {
	Type        string     `json:"type"`
	Rules       []toolRule `json:"rules"`
	Behavior    string     `json:"behavior"`
	Destination string     `json:"destination"`
}

// Decision is the answer to a Use. The zero value denies.
type Decision struct {
	Allow  bool
	Reason string          // the reason of a denial; empty is the policy's
	Input  json.RawMessage // what the tool is called with instead; empty is what was asked for

	Session SessionRule // if allowed: what else is, until the process ends
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
		var updates []permissionUpdate
		if len(d.Session.rules) > 0 {
			updates = []permissionUpdate{{"addRules", d.Session.rules, "allow", "session"}}
		}
		response = struct {
			Behavior string             `json:"behavior"`
			Input    json.RawMessage    `json:"updatedInput"`
			Updates  []permissionUpdate `json:"updatedPermissions,omitempty"`
		}{"allow", json.RawMessage(cmp.Or(string(d.Input), string(u.Input), "{}")), updates}
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

package claude

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"teambridge/relay/agent"
	"teambridge/teams/rawjson"
)

// NewUse decodes a can_use_tool request, made in a permission mode that may be empty. A request of another
// form names no tool.
func NewUse(body json.RawMessage, mode string) agent.Use {
	var r struct {
		Tool  string          `json:"tool_name"`
		ID    string          `json:"tool_use_id"`
		Input json.RawMessage `json:"input"`
	}
	u := agent.Use{Kind: agent.AsksPermission, Mode: mode}
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
	switch u.Tool {
	case exitPlanMode:
		var in struct {
			Plan string `json:"plan"`
		}
		_ = json.Unmarshal(u.Input, &in) // it stays empty if it is missing
		u.Kind, u.Plan = agent.AsksPlan, in.Plan
	case askUserQuestion:
		u.Kind, u.Asked = agent.AsksPerson, questions(u.Input)
	}
	if u.ForPerson = forPerson(u, body); !u.ForPerson {
		for _, r := range sessionRules(u.Suggestions) {
			u.Session = append(u.Session, r.String())
		}
	}
	return u
}

// questions returns the questions of AskUserQuestion; none if its input cannot be read.
func questions(input json.RawMessage) (list []string) {
	var in struct {
		Questions []struct {
			Question string `json:"question"`
		} `json:"questions"`
	}
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	for _, q := range in.Questions {
		list = append(list, q.Question)
	}
	return list
}

// forPerson reports whether only a person can decide on a tool use. The current mode and the tool's name
// decide even if the request gives no reason.
func forPerson(u agent.Use, body json.RawMessage) bool {
	if u.Mode == planMode || u.Kind != agent.AsksPermission {
		return true
	}
	var why struct {
		Reason      string `json:"decision_reason_type"`
		Interactive bool   `json:"requires_user_interaction"`
	}
	// An unreadable request is of a form that no known version has.
	return json.Unmarshal(body, &why) != nil || why.Reason == "mode" || why.Interactive
}

// writesPlan reports whether an agent in plan mode is writing its plan, which Claude Code keeps in the
// directory plans under root. Only our rules (see [planSettings]) make it ask about this file; for other
// files it asks by itself, and gives the mode as the reason.
func writesPlan(u agent.Use, body json.RawMessage, root string) bool {
	var r struct {
		Reason string `json:"decision_reason_type"`
		Input  struct {
			Path string `json:"file_path"`
		} `json:"input"`
	}
	if u.Mode != planMode || u.Subagent != "" || !slices.Contains([]string{"Write", "Edit", "MultiEdit"}, u.Tool) || json.Unmarshal(body, &r) != nil {
		return false
	}
	path := r.Input.Path
	return r.Reason != "mode" && root != "" && filepath.Clean(path) == path && filepath.Ext(path) == ".md" && filepath.Dir(path) == filepath.Join(root, "plans")
}

// sessionRule allows uses of tools until the process ends. Claude Code suggests such rules.
type sessionRule []toolRule

type toolRule struct {
	Tool    string `json:"toolName"`
	Content string `json:"ruleContent,omitempty"`
}

// String returns the rule in the syntax of Claude Code's settings, such as "Bash(go test *)".
func (r sessionRule) String() string {
	texts := make([]string, len(r))
	for i, rule := range r {
		if texts[i] = rule.Tool; rule.Content != "" {
			texts[i] += "(" + rule.Content + ")"
		}
	}
	return strings.Join(texts, ", ")
}

// sessionRules returns the suggested rules that a person can allow for the session. Other suggestions write
// settings files or set the mode acceptEdits, and are left out.
func sessionRules(suggestions []json.RawMessage) (list []sessionRule) {
	for _, data := range suggestions {
		var s struct {
			Type     string      `json:"type"`
			Behavior string      `json:"behavior"`
			Rules    sessionRule `json:"rules"`
		}
		blank := func(r toolRule) bool { return r.Tool == "" }
		if json.Unmarshal(data, &s) == nil && s.Type == "addRules" && s.Behavior == "allow" && len(s.Rules) > 0 && !slices.ContainsFunc(s.Rules, blank) {
			list = append(list, s.Rules)
		}
	}
	return list
}

// permissionUpdate is a permission update in Claude Code's format.
type permissionUpdate struct {
	Type        string      `json:"type"`
	Rules       sessionRule `json:"rules"`
	Behavior    string      `json:"behavior"`
	Destination string      `json:"destination"`
}

// answered adds the answers to the input of an AskUserQuestion.
func answered(input json.RawMessage, answers map[string]string) (json.RawMessage, error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, fmt.Errorf("the questions cannot be read: %w", err)
	}
	var err error
	if in["answers"], err = json.Marshal(answers); err != nil {
		return nil, err
	}
	return json.Marshal(in)
}

// answer encodes the answer to a permission request.
func answer(p *agent.Permission, id string, u agent.Use, d agent.Decision) ([]byte, error) {
	response, err := decided(u, d, p.Denial(d))
	if err != nil {
		return nil, err
	}
	data, err := encodeAnswer(answerBody{Subtype: "success", RequestID: id, Response: response})
	if err != nil {
		return nil, fmt.Errorf("claude: answer about %s: %w", u.Tool, err)
	}
	return data, nil
}

// decided encodes a decision for Claude Code; denial is the reason for denying.
func decided(u agent.Use, d agent.Decision, denial string) (any, error) {
	if !d.Allow {
		return struct {
			Behavior string `json:"behavior"`
			Message  string `json:"message"`
		}{"deny", denial}, nil
	}
	input := json.RawMessage(cmp.Or(string(u.Input), "{}"))
	if len(d.Answers) > 0 {
		var err error
		if input, err = answered(u.Input, d.Answers); err != nil {
			return nil, fmt.Errorf("claude: answer about %s: %w", u.Tool, err)
		}
	}
	var updates []permissionUpdate
	if i := slices.Index(u.Session, d.Session); i >= 0 {
		updates = []permissionUpdate{{"addRules", sessionRules(u.Suggestions)[i], "allow", "session"}}
	}
	return struct {
		Behavior string             `json:"behavior"`
		Input    json.RawMessage    `json:"updatedInput"`
		Updates  []permissionUpdate `json:"updatedPermissions,omitempty"`
	}{"allow", input, updates}, nil
}

// HookUse decodes the input of a PermissionRequest hook.
func HookUse(input []byte) (u agent.Use, session string, err error) {
	var in struct {
		Session     string            `json:"session_id"`
		Mode        string            `json:"permission_mode"`
		Tool        string            `json:"tool_name"`
		Input       json.RawMessage   `json:"tool_input"`
		Subagent    string            `json:"agent_id"`
		Suggestions []json.RawMessage `json:"permission_suggestions"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return u, "", fmt.Errorf("read the JSON of the hook: %w", err)
	}
	body, err := json.Marshal(map[string]any{
		"tool_name": in.Tool, "input": in.Input, "agent_id": in.Subagent, "permission_suggestions": in.Suggestions,
	})
	if err != nil {
		return u, "", fmt.Errorf("read the JSON of the hook: %w", err)
	}
	return NewUse(body, in.Mode), in.Session, nil
}

// HookDecision encodes a decision as the output of a PermissionRequest hook.
func HookDecision(u agent.Use, d agent.Decision) ([]byte, error) {
	decision, err := decided(u, d, cmp.Or(d.Reason, agent.NotAllowed))
	if err != nil {
		return nil, err
	}
	type output struct {
		Event    string `json:"hookEventName"`
		Decision any    `json:"decision"`
	}
	return rawjson.Encode(map[string]output{"hookSpecificOutput": {"PermissionRequest", decision}})
}

type answerBody struct {
	Subtype   string `json:"subtype"`
	RequestID string `json:"request_id"`
	Response  any    `json:"response,omitempty"`
	Error     string `json:"error,omitempty"`
}

func encodeAnswer(body answerBody) ([]byte, error) {
	return rawjson.Encode(struct {
		Type     string     `json:"type"`
		Response answerBody `json:"response"`
	}{"control_response", body})
}

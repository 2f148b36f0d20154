package acp

import (
	"cmp"
	"encoding/json"
	"slices"

	"teambridge/relay/agent"
	"teambridge/relay/toolcall"
)

// request handles a request of the agent, and answers it.
func (a *Agent) request(id json.RawMessage, method string, params json.RawMessage) {
	var p permissionParams
	if method != methodPermission || json.Unmarshal(params, &p) != nil {
		go a.reply(id, nil, &CallError{Code: codeNoMethod, Message: "teambridge does not serve " + method})
		return
	}
	cancelled := permissionAnswer{outcome{Outcome: "cancelled"}}
	a.mu.Lock()
	f, turn := a.flight, a.turn
	a.mu.Unlock()
	if f == nil || turn == nil || f.asking.Err() != nil {
		go a.reply(id, cancelled, nil) // outside a turn, and in one that is being stopped, every request is cancelled
		return
	}
	if p.SessionID == a.record.session {
		turn.flush()
		turn.tool(p.ToolCall.toolCall)
	}
	a.began(f, true)
	go func() {
		use := a.use(&p)
		d := a.grants.Decide(f.asking, a.options.Permission, use)
		kind := rejectOnce
		if d.Allow {
			kind = allowOnce
		}
		answer := cancelled
		if f.asking.Err() == nil {
			if i := slices.IndexFunc(p.Options, func(o permissionOption) bool { return o.Kind == kind }); i >= 0 {
				answer = permissionAnswer{outcome{"selected", p.Options[i].ID}}
			}
			a.mu.Lock()
			f.denied = f.denied || !d.Allow
			a.planned = a.planned || d.Allow && use.Kind == agent.AsksPlan
			a.mu.Unlock()
			if !d.Allow {
				turn.denied.Store(p.ToolCall.ID, true)
			}
		}
		a.reply(id, answer, nil)
	}()
}

// use converts a request to the form in which policies decide about it.
func (a *Agent) use(p *permissionParams) agent.Use {
	t := p.ToolCall
	u := agent.Use{
		Kind: agent.AsksPermission, Tool: toolName(t.Tool), ID: t.ID, Input: t.Input, Mode: a.modeName(), Display: t.Name, Description: toolcall.Cut(t.Title),
	}
	if p.SessionID != a.record.session {
		u.Subagent = p.SessionID
	}
	if len(t.Input) == 0 || string(t.Input) == "null" {
		input := map[string]string{"title": t.Title}
		for _, d := range t.Content {
			if d.Type == "diff" {
				input = map[string]string{"file_path": d.Path, "old_string": d.OldText, "new_string": d.NewText}
			}
		}
		u.Input, _ = json.Marshal(input) // cannot fail: it holds strings
	}
	if u.Tool == "ExitPlanMode" {
		var plan struct{ Plan string }
		_ = json.Unmarshal(t.Input, &plan) // the input may have no plan
		u.Kind, u.ForPerson, u.Plan = agent.AsksPlan, true, cmp.Or(plan.Plan, t.Title)
		return u
	}
	u.ForPerson = u.Mode == "plan" // in plan mode, a list allows no tool with effects
	if t.Title != "" {
		u.Session = []string{u.Tool + "(" + toolcall.Line(cmp.Or(t.command(), t.Title)) + ")"}
	}
	return u
}

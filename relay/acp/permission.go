package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"teambridge/relay/agent"
	"teambridge/relay/toolcall"
)

// request takes a request of the agent, and answers it.
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
	if f == nil || turn == nil {
		go a.reply(id, cancelled, nil) // nobody waits for what it does
		return
	}
	if p.SessionID == a.record.session {
		turn.flush()
		turn.tool(p.ToolCall.toolCall)
	}
	a.began(f, true)
	go func() {
		d, use := a.decide(f.life, &p)
		if f.life.Err() != nil {
			a.reply(id, cancelled, nil)
			return
		}
		kind := rejectOnce
		if d.Allow {
			kind = allowOnce
		}
		i := slices.IndexFunc(p.Options, func(o permissionOption) bool { return o.Kind == kind })
		a.mu.Lock()
		switch {
		case !d.Allow:
			f.denied = true
			turn.denied.Store(p.ToolCall.ID, true)
		case use.Kind == agent.AsksPlan:
			a.planned = true
		}
		a.mu.Unlock()
		if i < 0 {
			a.reply(id, cancelled, nil)
			return
		}
		a.reply(id, permissionAnswer{outcome{"selected", p.Options[i].ID}}, nil)
	}()
}

// decide decides on a use of a tool, until ctx ends. What a person allows until the agent ends is kept here: an agent keeps
// what it is always allowed for longer, and for more.
func (a *Agent) decide(ctx context.Context, p *permissionParams) (agent.Decision, agent.Use) {
	use := a.use(p)
	rule := ""
	if len(use.Session) > 0 {
		rule = use.Session[0]
	}
	a.mu.Lock()
	granted := rule != "" && a.granted[rule]
	a.mu.Unlock()
	if granted {
		return agent.Decision{Allow: true}, use
	}
	policy := a.options.Permission
	d, decided := policy.Decide(use)
	if !decided {
		if d = policy.Ask(ctx, use); ctx.Err() != nil || use.Check(d) != nil {
			d = agent.Decision{}
		}
	}
	if d.Allow && d.Session != "" {
		a.mu.Lock()
		a.granted[d.Session] = true
		a.mu.Unlock()
	}
	return d, use
}

// use is a request in the terms of a policy.
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
		u.Input, _ = json.Marshal(input) // strings: it cannot fail
	}
	if u.Tool == "ExitPlanMode" {
		var plan struct{ Plan string }
		_ = json.Unmarshal(t.Input, &plan) // it may have none
		u.Kind, u.ForPerson, u.Plan = agent.AsksPlan, true, cmp.Or(plan.Plan, t.Title)
		return u
	}
	u.ForPerson = u.Mode == "plan" // nothing that changes something is allowed by a list
	if t.Title != "" {
		u.Session = []string{u.Tool + "(" + toolcall.Line(cmp.Or(t.command(), t.Title)) + ")"}
	}
	return u
}

package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
)

// SetMode changes the permission mode and the model, between two turns.
func (a *Agent) SetMode(ctx context.Context, from, to mode.Mode) (mode.Mode, error) {
	if err := a.runtime.checkMode(to); err != nil {
		return from, err
	}
	now := from
	if to.PermissionMode != from.PermissionMode {
		if err := a.setPermission(ctx, to); err != nil {
			return now, err
		}
		now.PermissionMode = to.PermissionMode
	}
	if to.Model != from.Model {
		model, ok := to.Model.Value()
		if !ok {
			model = a.usual
		}
		if err := a.setModel(ctx, model); err != nil {
			return now, err
		}
	}
	a.mu.Lock()
	a.mode = to
	a.mu.Unlock()
	return to, nil
}

// setPermission sets a permission mode; by default, the one in which the agent asks. It must follow each
// start of a session, because agents choose an initial mode themselves or from project files. An unknown
// agent keeps its own mode unless another is requested.
func (a *Agent) setPermission(ctx context.Context, m mode.Mode) error {
	asked := permissionOf(m)
	own, ok := a.program.own(asked)
	if !ok && a.program.modes == nil {
		own = asked // asked may be the agent's own name for a mode
		if name, _ := m.PermissionMode.Value(); name == "" {
			return nil
		}
	} else if !ok {
		var names []string
		for _, m := range a.program.modes {
			names = append(names, m.ours)
		}
		return fmt.Errorf("acp: %s has no permission mode %.40q; it has %s: %w", a.program.name, asked, strings.Join(names, ", "), agent.ErrRefused)
	}
	modes := a.opened.choice("mode")
	if !slices.ContainsFunc(modes.values, func(v configValue) bool { return v.Value == own }) {
		return fmt.Errorf("acp: the agent has no mode %.40q, its name for %.40q; it has %q: %w", own, asked, modes.names(), agent.ErrRefused)
	}
	a.mu.Lock()
	a.current, a.planned = own, false
	a.mu.Unlock()
	return a.set(ctx, modes, own)
}

// setModel sets the model. name is its id, the part of the id after a slash, or its name.
func (a *Agent) setModel(ctx context.Context, name string) error {
	models := a.opened.choice("model")
	for _, matches := range []func(configValue) bool{
		func(v configValue) bool { return v.Value == name },
		func(v configValue) bool { return strings.HasSuffix(v.Value, "/"+name) },
		func(v configValue) bool { return strings.EqualFold(v.Name, name) },
	} {
		if i := slices.IndexFunc(models.values, matches); i >= 0 {
			return a.set(ctx, models, models.values[i].Value)
		}
	}
	return fmt.Errorf("acp: the agent has no model %.80q; it has %.400q: %w", name, models.names(), agent.ErrRefused)
}

// choice is a setting of a session, the mode or the model, and the way to change it. Agents offer three ways.
type choice struct {
	method  string
	option  string // the id of the option, for methodSetOption
	current string // "" if the agent does not report it
	values  []configValue
}

func (o opened) choice(category string) (c choice) {
	if category == "mode" && len(o.Modes.Available) > 0 {
		c = choice{method: methodSetMode, current: o.Modes.Current}
		for _, m := range o.Modes.Available {
			c.values = append(c.values, configValue{Value: m.ID})
		}
		return c
	}
	for _, p := range o.Options {
		if p.Category != category && (p.Category != "" || p.ID != category) {
			continue
		}
		c = choice{method: methodSetOption, option: p.ID, current: p.current()}
		for _, v := range p.Options {
			if len(v.Options) == 0 {
				v.Options = []configValue{v}
			}
			c.values = append(c.values, v.Options...) // the values of a group, or the value itself
		}
		return c
	}
	if category == "model" {
		c = choice{method: methodSetModel, current: o.Models.Current}
		for _, m := range o.Models.Available {
			c.values = append(c.values, configValue{Value: m.ID, Name: m.Name})
		}
	}
	return c
}

func (c choice) names() (list []string) {
	for _, v := range c.values {
		list = append(list, v.Value)
	}
	return list
}

func (o configOption) current() (value string) {
	_ = json.Unmarshal(o.Current, &value) // a switch has another type of value
	return value
}

// set chooses one of the values. The answer to methodSetOption shows whether it was set.
func (a *Agent) set(ctx context.Context, c choice, value string) error {
	p := sessionParams{SessionID: a.record.session}
	switch c.method {
	case methodSetMode:
		p.ModeID = value
	case methodSetModel:
		p.ModelID = value
	default:
		p.ConfigID, p.Value = c.option, value
	}
	var answer struct {
		Options []configOption `json:"configOptions"`
	}
	if err := a.call(ctx, c.method, p, &answer); err != nil {
		return err
	}
	for _, o := range answer.Options {
		if o.ID == p.ConfigID && o.current() != value {
			return fmt.Errorf("acp: the agent has %s %.60q after it was set to %.60q", o.ID, o.current(), value)
		}
	}
	return nil
}

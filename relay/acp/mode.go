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

// SetMode changes its permission mode and its model, between two turns.
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

// setPermission brings the agent into a permission mode: without one, into that in which it asks. It is done after each
// start of a session: agents begin in the mode that they, or files of the project, choose. An agent that is not known stays in
// its own mode unless it is asked for another.
func (a *Agent) setPermission(ctx context.Context, m mode.Mode) error {
	asked := permissionOf(m)
	own, ok := a.program.own(asked)
	if !ok && a.program.modes == nil {
		own = asked // of its own
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
	var list []string
	option := a.opened.option("mode")
	switch {
	case a.opened.Modes != nil:
		for _, m := range a.opened.Modes.Available {
			list = append(list, m.ID)
		}
	case option != nil:
		for _, v := range option.values() {
			list = append(list, v.Value)
		}
	}
	if !slices.Contains(list, own) {
		return fmt.Errorf("acp: the agent has no mode %.40q, which is what %.40q is called; it has %q: %w", own, asked, list, agent.ErrRefused)
	}
	a.mu.Lock()
	a.current, a.planned = own, false
	a.mu.Unlock()
	if a.opened.Modes != nil {
		return a.call(ctx, methodSetMode, sessionParams{SessionID: a.record.session, ModeID: own}, nil)
	}
	return a.setOption(ctx, option, own)
}

// setOption sets an option, and looks whether it is set.
func (a *Agent) setOption(ctx context.Context, option *configOption, value string) error {
	var answer struct {
		Options []configOption `json:"configOptions"`
	}
	if err := a.call(ctx, methodSetOption, sessionParams{SessionID: a.record.session, ConfigID: option.ID, Value: value}, &answer); err != nil {
		return err
	}
	for _, o := range answer.Options {
		if o.ID == option.ID && o.current() != value {
			return fmt.Errorf("acp: the agent has %s %.60q after it was set to %.60q", o.ID, o.current(), value)
		}
	}
	return nil
}

// setModel has the agent use a model, by its id, the end of that behind a slash, or its name.
func (a *Agent) setModel(ctx context.Context, name string) error {
	option := a.opened.option("model")
	var list []configValue
	if option != nil {
		list = option.values()
	} else if a.opened.Models != nil {
		for _, m := range a.opened.Models.Available {
			list = append(list, configValue{Value: m.ID, Name: m.Name})
		}
	}
	for _, matches := range []func(configValue) bool{
		func(v configValue) bool { return v.Value == name },
		func(v configValue) bool { return strings.HasSuffix(v.Value, "/"+name) },
		func(v configValue) bool { return strings.EqualFold(v.Name, name) },
	} {
		i := slices.IndexFunc(list, matches)
		if i < 0 {
			continue
		}
		if option != nil {
			return a.setOption(ctx, option, list[i].Value)
		}
		return a.call(ctx, methodSetModel, sessionParams{SessionID: a.record.session, ModelID: list[i].Value}, nil)
	}
	var names []string
	for _, v := range list {
		names = append(names, v.Value)
	}
	return fmt.Errorf("acp: the agent has no model %.80q; it has %.400q: %w", name, names, agent.ErrRefused)
}

// option finds an option by its category, or by its id.
func (o opened) option(category string) *configOption {
	for i := range o.Options {
		if c := &o.Options[i]; c.Category == category || c.Category == "" && c.ID == category {
			return c
		}
	}
	return nil
}

// model is the one that the session has; empty if the agent does not say.
func (o opened) model() string {
	if option := o.option("model"); option != nil {
		return option.current()
	} else if o.Models != nil {
		return o.Models.Current
	}
	return ""
}

func (o *configOption) current() (value string) {
	_ = json.Unmarshal(o.Current, &value) // of a switch it is no text
	return value
}

// values are those that it can have, without their groups.
func (o *configOption) values() (list []configValue) {
	for _, v := range o.Options {
		if len(v.Options) > 0 {
			list = append(list, v.Options...)
		} else {
			list = append(list, v)
		}
	}
	return list
}

package setup

import (
	"context"
	"fmt"
	"path/filepath"

	"teambridge/relay/stophook"
	"teambridge/relay/wake"
	"teambridge/teams"
	"teambridge/teams/rawjson"
)

// teamsStep turns teams on in Claude Code's settings.
type teamsStep struct{ *Setup }

// hooksStep puts our hooks into a settings file of Claude Code.
type hooksStep struct{ *Setup }

// variable is the path in the settings of the variable that turns teams on, and enabled is the value to set.
var variable = []string{"env", teams.EnableVariable}

const enabled = `"1"`

const settingsFile = "settings.json"

func (s *Setup) settings() string { return filepath.Join(s.Root, settingsFile) }

// valueOf returns the value of the variable in the content of a settings file.
func valueOf(data []byte) (value string, ok bool, err error) {
	spans, err := rawjson.Follow(data, variable...)
	if err != nil || len(spans) <= len(variable) {
		return "", false, err
	}
	raw := spans[len(variable)].Of(data)
	if text, err := rawjson.Text(raw); err == nil {
		return text, true, nil
	}
	return string(raw), true, nil
}

// addVariable adds the variable if it is missing.
func addVariable(data []byte, was []rawjson.Made) ([]byte, []rawjson.Made, error) {
	if _, ok, err := valueOf(data); ok || err != nil {
		return data, was, err
	}
	data, made, err := rawjson.Put(data, variable, []byte(enabled))
	return data, []rawjson.Made{made}, err
}

// removeVariable removes the variable if it has our value.
func removeVariable(data []byte, made []rawjson.Made) ([]byte, error) {
	spans, err := rawjson.Follow(data, variable...)
	if err != nil || len(spans) <= len(variable) || string(spans[len(variable)].Of(data)) != enabled || len(made) == 0 {
		return data, err
	}
	return rawjson.Take(data, variable, made[0])
}

func (s teamsStep) look(_ context.Context, st *Step) error {
	data, err := readIfAny(s.settings())
	if err != nil {
		return err
	}
	value, ok, err := valueOf(orEmpty(data))
	if err != nil {
		return invalid(s.settings(), err)
	}
	others, err := s.shares(st, s.settings())
	switch {
	case err != nil:
		return err
	case !ok:
		st.State, st.Detail = Missing, "agent teams are off"
		st.Plan = "turn agent teams on: " + teams.EnableVariable + `=1 in "env" of ` + s.settings()
	case !teams.Enables(value):
		st.State, st.Detail = Other, fmt.Sprintf("agent teams are turned off: %s is %q in %s; change it there", teams.EnableVariable, value, s.settings())
	case len(others) > 0:
		st.State, st.Detail = Missing, "agent teams are on, by a setup of "+others[0].Target+", which has the same settings"
		st.Plan = "keep agent teams on when that is undone"
	default:
		st.State, st.Detail = Done, teams.EnableVariable+" is "+value+" in "+s.settings()
	}
	return nil
}

// shares returns the records of the same step for other directories that share the file, unless this directory
// has a record, too.
func (s *Setup) shares(st *Step, path string) ([]record, error) {
	all, err := s.records()
	if err != nil {
		return nil, err
	}
	r, done := all.find(st)
	file, err := resolve(path)
	if done || err != nil {
		return nil, err
	}
	return all.sharing(file, r), nil
}

func (s teamsStep) do(_ context.Context, st *Step) error {
	return s.add(st, s.settings(), false, addVariable)
}

func (s teamsStep) undo(_ context.Context, st *Step) error {
	return s.take(st, s.settings(), edit(removeVariable))
}

// file returns the settings file of a step of Claude Code: the file for all projects, or the step's target.
func (s *Setup) file(st *Step) string {
	if st.Target == s.Root {
		return s.settings()
	}
	return st.Target
}

// addHooks adds our hooks.
func (s hooksStep) addHooks(data []byte, was []rawjson.Made) ([]byte, []rawjson.Made, error) {
	flags := s.Flags
	if s.Unasked {
		flags = append(flags[:len(flags):len(flags)], stophook.Unasked)
	}
	return stophook.Add(data, s.Program, s.Program, flags, wake.Supported, was)
}

func (s hooksStep) look(_ context.Context, st *Step) error {
	path := s.file(st)
	data, err := readIfAny(path)
	if err != nil {
		return err
	}
	there := len(stophook.Programs(path)) > 0
	text := orEmpty(data)
	want, _, err := s.addHooks(text, nil)
	if err != nil {
		return invalid(path, err)
	}
	others, err := s.shares(st, path)
	switch {
	case err != nil:
		return err
	case string(want) == string(text) && len(others) > 0:
		st.State, st.Detail = Missing, "the hooks are in "+path+" by a setup of "+others[0].Target+", which has the same settings"
		st.Plan = "keep the hooks when that is undone"
	case string(want) == string(text):
		st.State, st.Detail = Done, "the hooks are in "+path+", and run "+s.Program
	case !there && !s.Unasked && path == s.settings() && stophook.PluginEnabled(s.Root, ""):
		st.State, st.Detail = Done, "the plugin has the hooks"
	case there:
		st.State, st.Detail, st.Plan = Missing, "the hooks in "+path+" are others", "change the hooks in "+path
	default:
		st.State, st.Detail, st.Plan = Missing, "there are no hooks in "+path, "add the hooks to "+path
	}
	if st.Plan != "" && s.Unasked {
		st.Plan += "; every program of yours can then make its sessions work without asking you"
	}
	return nil
}

func (s hooksStep) do(_ context.Context, st *Step) error {
	path := s.file(st)
	return s.add(st, path, len(stophook.Programs(path)) > 0, s.addHooks)
}

func (s hooksStep) undo(_ context.Context, st *Step) error {
	return s.take(st, s.file(st), edit(func(data []byte, made []rawjson.Made) ([]byte, error) {
		return stophook.Remove(data, s.Program, made)
	}))
}

// there reports whether the file has a hook of ours.
func (s hooksStep) there(_ context.Context, st *Step) bool {
	return len(stophook.Programs(s.file(st))) > 0
}

package setup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teambridge/plugin"
	"teambridge/relay/shell"
)

// pluginStep installs the plugin in Claude Code.
type pluginStep struct{ *Setup }

// errElsewhere means that setup did not install Claude Code's plugin of this name.
var errElsewhere = errors.New("the plugin teambridge of Claude Code comes from elsewhere")

// installed is the state of the plugin in Claude Code.
type installed struct {
	version string // of the plugin; "": not installed
	enabled bool
	program string // the program that the plugin runs
	listed  bool   // Claude Code knows the marketplace
}

// claude runs commands of "claude plugin" until one fails.
func (s pluginStep) claude(ctx context.Context, st *Step, commands ...[]string) error {
	for _, args := range commands {
		if _, err := s.run(ctx, st, append([]string{"plugin"}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// list decodes the output of "claude plugin ARGS --json".
func (s pluginStep) list(ctx context.Context, st *Step, into any, args ...string) error {
	out, err := s.run(ctx, st, slices.Concat([]string{"plugin"}, args, []string{"--json"})...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("claude plugin %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// market returns the directory of our marketplace. Each directory of Claude Code has its own.
func (s pluginStep) market(st *Step) string { return plugin.Dir(s.State, st.Target) }

// installed asks Claude Code for the state of the plugin. The error can be errElsewhere.
func (s pluginStep) installed(ctx context.Context, st *Step) (is installed, err error) {
	var markets []struct{ Name, Path, Repo, URL string }
	if err := s.list(ctx, st, &markets, "marketplace", "list"); err != nil {
		return is, err
	}
	for _, m := range markets {
		if m.Name == plugin.Name {
			if is.listed = true; !shell.Same(m.Path, s.market(st)) {
				return is, fmt.Errorf("%w: %s", errElsewhere, cmp.Or(m.Path, m.Repo, m.URL, "?"))
			}
		}
	}
	var plugins []struct {
		ID, Version string
		Enabled     bool
		InstallPath string
	}
	if err := s.list(ctx, st, &plugins, "list"); err != nil {
		return is, err
	}
	for _, p := range plugins {
		if p.ID == plugin.ID {
			is.version, is.enabled = cmp.Or(p.Version, "?"), p.Enabled
			is.program = cmp.Or(plugin.Program(s.State, st.Target), plugin.ProgramIn(p.InstallPath))
		}
	}
	return is, nil
}

// there reports whether Claude Code has the plugin from setup.
func (s pluginStep) there(ctx context.Context, st *Step) bool {
	is, err := s.installed(ctx, st)
	return err == nil && is.version != ""
}

func (s pluginStep) look(ctx context.Context, st *Step) error {
	data, err := readIfAny(s.settings())
	if err == nil && data != nil {
		if err = json.Unmarshal(bytes.TrimPrefix(data, mark), &map[string]any{}); err != nil { // Claude Code would replace an invalid file
			err = invalid(s.settings(), err)
		}
	}
	if err != nil {
		return err
	}
	is, err := s.installed(ctx, st)
	if errors.Is(err, errElsewhere) {
		st.State, st.Detail = Other, err.Error()+"; see it with: claude plugin marketplace list"
		return nil
	}
	if err != nil {
		return err
	}
	_, version, err := plugin.Content(s.Program, s.Flags)
	switch {
	case err != nil:
		return err
	case is.version == "":
		st.State, st.Detail, st.Plan = Missing, "there is no plugin", "install the plugin: tools, hooks and commands for each session"
	case is.version != version:
		st.State, st.Detail, st.Plan = Missing, "the plugin is another one, which runs "+is.program, "update the plugin, which runs "+is.program
	case !is.enabled:
		st.State, st.Detail, st.Plan = Missing, "the plugin is not enabled", "enable the plugin"
	default:
		st.State, st.Detail = Done, "the plugin is installed, and runs "+is.program
	}
	return nil
}

// missing returns the commands after which Claude Code uses the plugin.
func (s pluginStep) missing(st *Step, is installed) [][]string {
	commands := [][]string{{"marketplace", "add", s.market(st)}}
	if is.version == "" {
		commands = append(commands, []string{"install", plugin.ID})
	} else if !is.enabled {
		commands = append(commands, []string{"enable", plugin.ID})
	}
	return commands
}

func (s pluginStep) do(ctx context.Context, st *Step) error {
	is, err := s.installed(ctx, st)
	if err != nil {
		return err
	}
	files, version, err := plugin.Content(s.Program, s.Flags)
	if err != nil || is.version == version && is.enabled && plugin.Complete(s.market(st), files) {
		return err
	}
	commands := s.missing(st, is)
	if is.version != "" {
		commands = slices.Insert(commands, 1, []string{"marketplace", "update", plugin.Name}, []string{"update", plugin.ID})
	}
	install := func() error {
		st.Changed = true
		err := os.MkdirAll(filepath.Dir(s.market(st)), 0o700)
		if err == nil {
			err = plugin.Write(s.market(st), files)
		}
		if err != nil {
			return err
		}
		return s.claude(ctx, st, commands...)
	}
	if is.version != "" { // a marketplace that setup did not add is not undone
		return install()
	}
	plugins := filepath.Join(st.Target, "plugins")
	return s.ran(st, nil, install, filepath.Join(st.Target, settingsFile),
		filepath.Join(plugins, "installed_plugins.json"), filepath.Join(plugins, "known_marketplaces.json"))
}

// undo removes the plugin and its files.
func (s pluginStep) undo(ctx context.Context, st *Step) error {
	is, err := s.installed(ctx, st)
	if err != nil {
		return err
	}
	var commands [][]string
	if is.version != "" {
		commands = append(commands, []string{"uninstall", plugin.ID})
	}
	if is.listed {
		commands = append(commands, []string{"marketplace", "remove", plugin.Name})
	}
	st.Changed = len(commands) > 0
	if err := s.claude(ctx, st, commands...); err != nil {
		return err
	}
	plugins := filepath.Join(st.Target, "plugins")
	if err := errors.Join(
		os.RemoveAll(filepath.Join(plugins, "cache", plugin.Name)), // Claude Code marks it as unused, and keeps it for a week
		s.enableOthers(ctx, st), s.take(st, "", nil), os.RemoveAll(s.market(st)),
	); err != nil {
		return err
	}
	for _, dir := range []string{"cache", "data", "marketplaces", "."} {
		_ = os.Remove(filepath.Join(plugins, dir)) // fails if it is not empty
	}
	return nil
}

// enableOthers enables the plugin again for other directories that share the settings file by a link, since
// undo has just disabled it there.
func (s pluginStep) enableOthers(ctx context.Context, st *Step) (err error) {
	all, err := s.records()
	if err != nil {
		return err
	}
	file, failed := resolve(filepath.Join(st.Target, settingsFile))
	if failed != nil {
		return nil // there are no settings
	}
	for _, r := range all.sharing(file, record{Step: st.Name, Target: st.Target}) {
		o := &Step{Program: st.Program, Path: st.Path, Target: r.Target}
		failed := s.claude(ctx, o, []string{"marketplace", "add", s.market(o)})
		if failed == nil {
			var is installed
			if is, failed = s.installed(ctx, o); failed == nil {
				failed = s.claude(ctx, o, s.missing(o, is)[1:]...)
			}
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s has the same settings, and its plugin may be off now: %w", r.Target, failed))
		}
	}
	return err
}

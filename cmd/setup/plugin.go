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
	"strings"

	"teambridge/plugin"
)

// errElsewhere means that Claude Code has a plugin of this name that we have not installed.
var errElsewhere = errors.New("the plugin teambridge of Claude Code comes from elsewhere")

// installed is what Claude Code has.
type installed struct {
	Version   string // of the plugin; "": none is installed
	Enabled   bool
	Program   string // that it runs
	Elsewhere string // where the marketplace is, if it is not ours

	listed bool // the marketplace
}

// claude runs "claude plugin ARGS" for the directory that is the target of a step, and returns what it prints.
func (s *Setup) claude(ctx context.Context, st *Step, args ...string) ([]byte, error) {
	var env []string
	if s.Named || st.Target != s.Root {
		env = []string{"CLAUDE_CONFIG_DIR=" + st.Target}
	}
	return runIn(ctx, "", st, env, append([]string{"plugin"}, args...)...)
}

// list reads the answer of "claude plugin ARGS --json".
func (s *Setup) list(ctx context.Context, st *Step, into any, args ...string) error {
	out, err := s.claude(ctx, st, append(args, "--json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("claude plugin %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// market is the marketplace that we write. Each of Claude Code's directories has its own.
func (s *Setup) market(st *Step) string { return plugin.Dir(s.State, st.Target) }

// installed asks Claude Code what it has.
func (s *Setup) installed(ctx context.Context, st *Step) (is installed, err error) {
	var markets []struct{ Name, Path, Repo, URL string }
	if err := s.list(ctx, st, &markets, "marketplace", "list"); err != nil {
		return is, err
	}
	for _, m := range markets {
		if m.Name == plugin.Name {
			if is.listed = true; !sameFile(m.Path, s.market(st)) {
				is.Elsewhere = cmp.Or(m.Path, m.Repo, m.URL, "?")
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
			is.Version, is.Enabled = cmp.Or(p.Version, "?"), p.Enabled
			is.Program = cmp.Or(plugin.Program(s.State, st.Target), plugin.ProgramIn(p.InstallPath))
		}
	}
	return is, nil
}

// hasPlugin reports whether Claude Code has the plugin that setup has installed.
func (s *Setup) hasPlugin(ctx context.Context, st *Step) bool {
	if st.Path == "" {
		return false
	}
	is, err := s.installed(ctx, st)
	return err == nil && is.Version != "" && is.Elsewhere == ""
}

func (s *Setup) lookPlugin(ctx context.Context, st *Step) error {
	data, err := readIfAny(s.settings())
	if err == nil && data != nil {
		if err = json.Unmarshal(bytes.TrimPrefix(data, mark), &map[string]any{}); err != nil { // Claude Code would write another one
			err = invalid(s.settings(), err)
		}
	}
	if err != nil {
		return err
	}
	is, err := s.installed(ctx, st)
	if err != nil {
		return err
	}
	_, version, err := plugin.Content(s.Program, s.Flags)
	switch {
	case err != nil:
		return err
	case is.Elsewhere != "":
		st.State, st.Detail = Other, fmt.Sprintf("%v: %s; see it with: claude plugin marketplace list", errElsewhere, is.Elsewhere)
	case is.Version == version && is.Enabled:
		st.State, st.Detail = Done, "the plugin is installed, and runs "+is.Program
	case is.Version == "":
		st.State, st.Detail, st.Plan = Missing, "there is no plugin", "install the plugin: tools, hooks and commands for each session"
	case is.Version == version:
		st.State, st.Detail, st.Plan = Missing, "the plugin is not enabled", "enable the plugin"
	default:
		st.State, st.Detail, st.Plan = Missing, "the plugin is another one, which runs "+is.Program, "update the plugin, which runs "+is.Program
	}
	return nil
}

// written are the files that Claude Code writes in its own form when it installs or removes a plugin.
func (s *Setup) written(st *Step) []string {
	dir := filepath.Join(st.Target, "plugins")
	return []string{filepath.Join(st.Target, settingsFile), filepath.Join(dir, "installed_plugins.json"), filepath.Join(dir, "known_marketplaces.json")}
}

func (s *Setup) installPlugin(ctx context.Context, st *Step) error {
	was, err := s.installed(ctx, st)
	if err != nil {
		return err
	}
	if was.Elsewhere != "" {
		return fmt.Errorf("%w: %s", errElsewhere, was.Elsewhere)
	}
	files, version, err := plugin.Content(s.Program, s.Flags)
	if err != nil || was.Version == version && was.Enabled && plugin.Complete(s.market(st), files) {
		return err
	}
	commands := [][]string{{"marketplace", "add", s.market(st)}, {"install", plugin.ID}}
	if was.Version != "" { // it was there before: if setup has not done that, it is not undone
		commands = [][]string{{"marketplace", "add", s.market(st)}, {"marketplace", "update", plugin.Name}, {"update", plugin.ID}}
		if !was.Enabled {
			commands = append(commands, []string{"enable", plugin.ID})
		}
	} else if err := s.begun(st, nil, true, s.written(st)...); err != nil {
		return err
	}
	st.Changed = true
	if err = os.MkdirAll(filepath.Dir(s.market(st)), 0o700); err == nil {
		err = plugin.Write(s.market(st), files)
	}
	for _, args := range commands {
		if err == nil {
			_, err = s.claude(ctx, st, args...)
		}
	}
	if err == nil {
		now, failed := s.installed(ctx, st)
		if err = failed; err == nil && (now.Version != version || !now.Enabled) {
			err = fmt.Errorf("claude plugin list has version %q (enabled: %t) after version %s was installed", now.Version, now.Enabled, version)
		}
	}
	if err == nil || was.Version != "" {
		return err
	}
	if left := s.uninstallPlugin(ctx, st); left != nil {
		st.Changed = true
		return errors.Join(err, fmt.Errorf("remove what is installed of it: %w; try: teambridge setup --undo", left))
	}
	st.Changed = false
	return err
}

// uninstallPlugin removes the plugin and all that was made for it.
func (s *Setup) uninstallPlugin(ctx context.Context, st *Step) error {
	if err := s.needs(st); err != nil {
		return err
	}
	was, err := s.installed(ctx, st)
	if err != nil {
		return err
	}
	if was.Elsewhere != "" {
		return fmt.Errorf("%w: %s", errElsewhere, was.Elsewhere)
	}
	if was.Version != "" {
		if _, err := s.claude(ctx, st, "uninstall", plugin.ID); err != nil {
			return err
		}
	}
	if was.listed {
		if _, err := s.claude(ctx, st, "marketplace", "remove", plugin.Name); err != nil {
			return err
		}
	}
	st.Changed = was.listed || was.Version != ""
	plugins := filepath.Join(st.Target, "plugins")
	if err := errors.Join(
		os.RemoveAll(filepath.Join(plugins, "cache", plugin.Name)), // Claude Code marks it as unused, and keeps it for a week
		s.enableOthers(ctx, st), s.ended(st), os.RemoveAll(s.market(st)),
	); err != nil {
		return err
	}
	for _, dir := range []string{"cache", "data", "marketplaces", "."} {
		_ = os.Remove(filepath.Join(plugins, dir)) // fails if it is not empty
	}
	return nil
}

// enableOthers turns the plugin of other directories on again whose settings are the same file, by a link: what says there that it
// is on has just gone.
func (s *Setup) enableOthers(ctx context.Context, st *Step) error {
	all, err := s.records()
	if err != nil {
		return err
	}
	file, err := resolve(filepath.Join(st.Target, settingsFile))
	if err != nil {
		return nil // there are no settings
	}
	var failed []error
	for _, r := range all.sharing(file, record{Step: st.Name, Target: st.Target}) {
		o := &Step{Program: st.Program, Path: st.Path, Target: r.Target}
		_, err = s.claude(ctx, o, "marketplace", "add", s.market(o))
		if err == nil {
			var is installed
			if is, err = s.installed(ctx, o); err == nil && is.Version == "" {
				_, err = s.claude(ctx, o, "install", plugin.ID)
			} else if err == nil && !is.Enabled {
				_, err = s.claude(ctx, o, "enable", plugin.ID)
			}
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s has the same settings, and its plugin may be off now: %w", r.Target, err))
		}
	}
	return errors.Join(failed...)
}

func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"teambridge/relay/pane"
	"teambridge/relay/terminal"
	"teambridge/status/view"
	"teambridge/teams"
)

// panes reports what keeps messages from reaching panes, and hooks that cannot work.
func (x *examination) panes(ctx context.Context, root *teams.Root) error {
	if x.app.state == "" {
		return nil // reported
	}
	x.hooks(root)
	list, err := x.app.local().Registered(ctx)
	if ctx.Err() != nil {
		return err
	}
	if err != nil || len(list) == 0 {
		return nil // what is wrong with the ledger is reported with it
	}
	if t, err := root.Team(pane.Team); err == nil {
		_ = t.Close()
		x.add(problem, "team_named_tmux", pane.Team, filepath.Join(root.Path(), "teams", pane.Team), "a team has the name that the registered panes have as a team",
			"end that team; until then, its members cannot be told from panes")
	}
	if _, err := x.app.lookPath("tmux"); errors.Is(err, exec.ErrNotFound) {
		x.add(problem, "no_tmux", pane.Team, "", "panes are registered, and there is no tmux in $PATH", "install tmux 3.3 or newer")
		return nil
	}
	views, err := x.app.local().Look(ctx, list)
	if err != nil {
		if ctx.Err() == nil {
			x.add(problem, "panes", pane.Team, "", view.Describe(err), "")
			err = nil
		}
		return err
	}
	for _, v := range views {
		name := v.Pane.Inbox
		switch {
		case v.State == pane.Gone:
			x.add(notice, "pane_gone", pane.Team, v.Pane.Ref.Socket, fmt.Sprintf("the pane %s of %s is gone", v.Pane.Ref.ID, name),
				fmt.Sprintf("teambridge pane add %[1]s --pane TARGET --replace; or: teambridge pane remove %[1]s", view.ShellQuote(name)))
			continue
		case v.State == pane.NoAgent:
			x.add(notice, "pane_without_agent", pane.Team, "", fmt.Sprintf("no agent is in the pane of %s: %s", name, v.Why), "start it there; messages to it are refused until then")
		case v.Pane.Profile == terminal.Claude && !x.app.hooked(root, v.Terminal.Path):
			x.add(notice, "no_hook", pane.Team, v.Terminal.Path, fmt.Sprintf("the Stop hook is not installed for %s: without it and without a service, the end of its tasks is not reported", name),
				"teambridge hook install, in that directory; or for all projects: teambridge hook install --user")
		}
		if waiting := v.Waiting(); len(waiting) > 0 && waiting[0].Detail != "" {
			x.add(notice, "pane_held", pane.Team, "", fmt.Sprintf("%s to %s waits: %s", plural(len(waiting), "message"), name, waiting[0].Detail), "see it with: teambridge pane test "+view.ShellQuote(name))
		}
	}
	return nil
}

// hooked reports whether one of the settings files that apply in a directory has our hook.
func (a *app) hooked(root *teams.Root, dir string) bool {
	own, _ := os.Executable()
	return slices.ContainsFunc(settingsOf(root, dir), func(path string) bool {
		return len(hooksIn(path, own)) > 0
	})
}

// settingsOf are the settings files that apply in a directory, below the user's.
func settingsOf(root *teams.Root, dir string) []string {
	return []string{
		filepath.Join(root.Path(), "settings.json"), filepath.Join(dir, ".claude", "settings.json"), filepath.Join(dir, ".claude", "settings.local.json"),
	}
}

// hooksIn returns our hooks in a settings file.
func hooksIn(path, own string) []stopHook {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	s, err := parseSettings(data, own)
	if err != nil {
		return nil // reported with the settings
	}
	return s.ours()
}

// hooks reports hooks whose program is gone, in the settings that apply here and in those in
// which a hook was installed.
func (x *examination) hooks(root *teams.Root) {
	own, _ := os.Executable()
	paths := []string{filepath.Join(root.Path(), "settings.json")}
	if cwd, err := x.app.cwd(); err == nil {
		paths = settingsOf(root, cwd)
	}
	records, _ := filepath.Glob(filepath.Join(x.app.hookRecords(), "*.json"))
	for _, record := range records {
		var r hookRecord
		if readJSON(record, &r) == nil {
			paths = append(paths, r.File)
		}
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		for _, h := range hooksIn(path, own) {
			program, _ := hookProgram(h.command, own)
			if _, err := os.Stat(program); filepath.IsAbs(program) && errors.Is(err, fs.ErrNotExist) {
				x.add(problem, "hook_gone", "", path, "the Stop hook runs a program that is gone, "+program+": Claude Code reports an error at the end of each turn",
					"teambridge hook install --file "+view.ShellQuote(path)+", or uninstall")
			} else {
				x.add(checked, "hook", "", path, "the Stop hook is installed", "")
			}
		}
	}
}

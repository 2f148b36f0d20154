package doctor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"teambridge/relay/pane"
	"teambridge/relay/shell"
	"teambridge/relay/stophook"
	"teambridge/relay/tmux"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/view"
)

// panes reports what keeps messages from reaching panes, and hooks that do not work.
func (x *examination) panes(ctx context.Context) error {
	if x.State == "" {
		return nil // reported
	}
	x.hooks()
	l, err := x.Ledger(ctx)
	if ctx.Err() != nil {
		return err
	}
	if err != nil || l == nil {
		return nil // an error of the ledger is reported elsewhere
	}
	panes := pane.New(pane.Options{Root: x.Root, Ledger: l, State: x.State, Locker: x.Locker})
	list, err := panes.Registry.List(ctx)
	if ctx.Err() != nil {
		return err
	}
	if err != nil || len(list) == 0 {
		return nil
	}
	if t, err := x.Root.Team(pane.Team); err == nil {
		_ = t.Close()
		x.add(api.LevelProblem, "team_named_tmux", pane.Team, filepath.Join(x.Root.Path(), "teams", pane.Team), "a team has the reserved name of the registered panes",
			"end that team; until then, its members cannot be distinguished from panes")
	}
	if _, err := x.lookPath("tmux"); errors.Is(err, exec.ErrNotFound) {
		x.add(api.LevelProblem, "no_tmux", pane.Team, "", "panes are registered, and there is no tmux in $PATH", "install tmux 3.3 or newer")
		return nil
	}
	views, err := panes.Views.LookAll(ctx, list)
	if err != nil {
		if ctx.Err() == nil {
			x.add(api.LevelProblem, "panes", pane.Team, "", view.Describe(err), "")
			err = nil
		}
		return err
	}
	for _, v := range views {
		name := v.Pane.Inbox
		switch {
		case v.State == tmux.Gone:
			x.add(api.LevelNote, "pane_gone", pane.Team, v.Pane.Ref.Socket, fmt.Sprintf("the pane %s of %s is gone", v.Pane.Ref.ID, name),
				fmt.Sprintf("teambridge pane add %[1]s --pane TARGET --replace; or: teambridge pane remove %[1]s", shell.Quote(name)))
			continue
		case v.State == tmux.Closed:
			x.add(api.LevelNote, "pane_without_agent", pane.Team, "", fmt.Sprintf("no agent is in the pane of %s: %s", name, v.Why), "start it there; messages to it are refused until then")
		case v.Pane.Profile == tmux.Claude && !stophook.Installed(x.Root.Path(), v.Terminal.Path):
			x.add(api.LevelNote, "no_hook", pane.Team, v.Terminal.Path, fmt.Sprintf("the Stop hook is not installed for %s: without it and without a service, the end of its tasks is not reported", name),
				"teambridge setup hooks --project, in that directory; or for all projects: teambridge setup, whose plugin has it")
		}
		if waiting := v.Waiting(); len(waiting) > 0 && waiting[0].Detail != "" {
			x.add(api.LevelNote, "pane_held", pane.Team, "", fmt.Sprintf("%s to %s waits: %s", plain.Plural(len(waiting), "message"), name, waiting[0].Detail), "see it with: teambridge pane test "+shell.Quote(name))
		}
	}
	return nil
}

// hooks reports hooks whose program is gone, in the settings that apply here and in all settings files in which
// teambridge has installed a hook.
func (x *examination) hooks() {
	files := append(stophook.Files(x.Root.Path(), x.Dir), stophook.Recorded(x.State)...)
	slices.Sort(files)
	for _, path := range slices.Compact(files) {
		programs := stophook.Programs(path)
		slices.Sort(programs)
		for _, program := range slices.Compact(programs) {
			if gone(program) {
				x.add(api.LevelProblem, "hook_gone", "", path, "a hook runs a program that is gone, "+program+": Claude Code reports an error at the end of each turn",
					"teambridge setup hooks --file "+shell.Quote(path)+"; or remove it: add --undo")
			} else {
				x.add(api.LevelOK, "hook", "", path, "our hooks are installed", "")
			}
		}
	}
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/cmd/setup"
	"teambridge/relay/codex"
	"teambridge/relay/qwen"
	"teambridge/status/view"
	"teambridge/teams"
)

type setupOptions struct {
	dryRun, yes, undo bool
}

func newSetup(a *app) *cobra.Command {
	var o setupOptions
	cmd := &cobra.Command{
		Use:   "setup [STEP|PROGRAM]...",
		Short: "Give the programs of agents what they need for teambridge",
		Long: `Find the programs of agents in $PATH, and set up what they lack.

It asks before each step. Without a terminal and without --yes, it only says
what it would do. With names of steps or programs, it does those alone.

  claude    plugin  tools, hooks and commands for each session, and a page that
                    tells the model when to write to whom
            teams   CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1 in "env" of
                    settings.json, which turns agent teams on
  codex     tools   the MCP server teambridge, by "codex mcp add"
  qwen      tools   the same, by "qwen mcp add"; its sessions then take messages
                    without asking you about each
            rights  what you send, and no agent, counts as your own words in
                    its sessions: teambridge becomes a controller there. --yes
                    does not agree to this
  opencode          nothing; it says what works

All of them run this program by its path in $PATH. If that is gone, the hooks do
nothing, and Claude Code shows that the server teambridge failed.

The state of a step is "done", "missing", "declined", "other" (somebody else has
set it up in another way, or there is nothing to set up; it stays as it is) or
"failed". Setting up again does what is missing.

--undo undoes what setup has done, and asks, too. What was there before stays. A
file that nobody has changed since is as it was, byte for byte; from another one
the entry of teambridge is removed. Before a file is changed, a copy of it is
kept in the folder setup of the state directory, or, of the files that the
plugin changes, in plugins.

Exit status: 0, even if you decline; 1 a step failed, which does not keep others
from being done; 2 nothing can be set up, since "go run" runs this program; 3 no
program of the steps that were named is in $PATH; 5 somebody else has set up
such a step in another way.`,
		Example: `  teambridge setup
  teambridge setup plugin --dry-run
  teambridge setup --undo --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if !slices.Contains(setup.Names(), name) {
					return usage("there are "+strings.Join(setup.Names(), ", "), "there is no step or program %q", name)
				}
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return setup.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			o.dryRun = o.dryRun || !o.yes && !a.keyboard
			s, err := a.setup(o.dryRun)
			if err != nil {
				return err
			}
			return runSetup(cmd.Context(), a, s, o, names...)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be done, and change nothing")
	f.BoolVarP(&o.yes, "yes", "y", false, "agree to all steps")
	f.BoolVar(&o.undo, "undo", false, "undo what setup has done")
	return cmd
}

func runSetup(ctx context.Context, a *app, s *setup.Setup, o setupOptions, names ...string) error {
	list := []*setup.Step{}
	if o.undo {
		made, err := s.Made(names...)
		if err != nil {
			return err
		}
		list = append(list, made...)
	} else {
		done := a.working("asking the programs what they have")
		list = append(list, s.Look(ctx, names...)...)
		done()
	}
	answers := bufio.NewReader(a.stdin)
	only := o.dryRun
	planned := 0
	var failed error
	for _, st := range list {
		if st.Plan != "" {
			planned++
			agreed := o.yes
			if !only && !o.yes {
				var err error
				if agreed, err = a.agrees(ctx, answers, st); errors.Is(err, io.EOF) {
					only = true // nobody answers
				} else if err != nil {
					return err
				}
			}
			switch {
			case only:
				st.Detail += "; would " + st.Plan
			case o.yes && st.Grants:
				st.Detail += "; without --yes, you are asked whether to " + st.Plan
			case agreed:
				done := a.working("%s: %s", st.Program, st.Name)
				s.Do(ctx, st)
				done()
			default:
				st.Decline()
			}
		}
		if st.State == setup.Other && len(names) > 0 && !o.undo {
			failed = errors.Join(failed, refuse("", "%s, %s: %s", st.Program, st.Name, st.Detail))
		}
		if st.State == setup.Failed {
			failed = errors.Join(failed, fmt.Errorf("%s, %s: %s", st.Program, st.Name, st.Detail))
		}
	}
	none := "none of these programs is in $PATH: " + strings.Join(setup.Programs(), ", ")
	if o.undo {
		none = "there is nothing to undo"
	} else if len(list) == 0 && len(names) > 0 {
		return notFound("install it, or add its directory to $PATH", "no program is in $PATH that has the step: %s", strings.Join(names, ", "))
	}
	if err := printList(a, list, none, []string{"PROGRAM", "STEP", "STATE", "DETAIL"}, func(st *setup.Step) []string {
		first, _, _ := strings.Cut(st.Detail, "\n")
		return []string{st.Program, st.Name, string(st.State), first}
	}); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(list, func(st *setup.Step) bool { return st.Changed }):
		verb := "get"
		if o.undo {
			verb = "lose"
		}
		a.note("sessions that run already %s it when they are started again", verb)
	case planned > 0 && only:
		again := append([]string{"teambridge setup"}, names...)
		if o.undo {
			again = append(again, "--undo")
		}
		a.note("nothing was changed; to agree to all: %s --yes", strings.Join(again, " "))
	}
	return failed
}

// agrees asks the person at the terminal whether a step is to be done. The error is io.EOF if there is no answer.
func (a *app) agrees(ctx context.Context, answers *bufio.Reader, st *setup.Step) (bool, error) {
	a.tell([]byte(escape(st.Program+": "+st.Plan, false) + "? [y/N] "))
	var answer string
	var err error
	if err := interruptibly(ctx, func() { answer, err = answers.ReadString('\n') }); err != nil {
		return false, err
	}
	if err != nil {
		a.tell([]byte("\n"))
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// setup is this machine, for the user of this call. dry says that nothing will be done.
func (a *app) setup(dry bool) (*setup.Setup, error) {
	own, err := ownBinary()
	if err != nil && dry {
		own = "teambridge"
		if installed, err := exec.LookPath(own); err == nil {
			own = installed
		}
		a.note("%s; before you set up: go install ./cmd/teambridge", view.Describe(err))
	} else if err != nil {
		return nil, err
	}
	root, err := teams.Find(a.claudeDir, a.lookup)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return nil, err
	}
	// As (*teams.Root).Path, but there may be no directory yet.
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(root)); err == nil {
		root = filepath.Join(dir, filepath.Base(root))
	}
	s := &setup.Setup{Root: root, Codex: codex.Home(a.lookup), Qwen: qwen.Home(a.lookup), State: a.state, Program: own, Flags: a.ownFlags(), Debug: a.debug}
	s.Path, _ = a.lookup("PATH")
	s.Named = a.claudeDir != ""
	return s, nil
}

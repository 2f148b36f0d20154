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
	"teambridge/relay/shell"
	"teambridge/relay/wake"
	"teambridge/status/view"
	"teambridge/teams"
)

type setupOptions struct {
	dryRun, yes, undo bool

	project, unasked bool // flags of the hooks
	file             string
}

func newSetup(a *app) *cobra.Command {
	var o setupOptions
	cmd := &cobra.Command{
		Use:   "setup [STEP|PROGRAM]...",
		Short: "Set up the programs of agents for teambridge",
		Long: `Find the programs of agents in $PATH, and set them up for teambridge.

It asks before each step. Without a terminal and without --yes, it only says
what it would do. With names of steps or programs, it does only those.

  claude    plugin  tools, hooks and commands for each session, and a page that
                    tells the model when to write to whom
            teams   CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1 in "env" of
                    settings.json, which turns agent teams on
            hooks   only if it is named: the three hooks of the plugin, alone.
                    One reports the end of each turn. Through the second, a
                    message reaches a session at a terminal whose socket is
                    switched off; a process waits beside each of these, which
                    needs 5 to 7 MiB and no time (Linux and macOS). The third
                    is for the next step
            questions
                    only if it is named: what a session with these hooks asks at
                    its terminal can be answered with "teambridge permit" and on
                    the page, too
            respawn only if it is named: a message starts a session again that
                    was stopped in the background, with "claude respawn"
  codex     tools   the MCP server teambridge, by "codex mcp add"
  qwen      tools   the same, by "qwen mcp add"; its sessions then take messages
                    without asking you about each
            rights  what you send, and no agent, counts as your own words in
                    its sessions: teambridge becomes a controller there. --yes
                    does not agree to this
  opencode          nothing; it says what works
  teambridge
            service only if it is named: what "teambridge service install"
                    installs without flags

All of them run this program by its path in $PATH. If the program is gone, the
hooks of the plugin do nothing, and Claude Code shows that the server teambridge
failed; "teambridge doctor" lists the entries that run a missing program.

Hooks are added to settings.json in Claude Code's directory, for all projects.
With --project, they are only for this directory on this machine, in
.claude/settings.local.json. A session that bypasses permissions, or whose
settings hold messages, asks its person about each message on its socket. With
--unasked, messages come through the hook even if there is a socket, and no
person is asked: each program of yours can then make these sessions work.

The state of a step is "done", "missing", "declined", "other" (it was set up in
another way, or there is nothing to set up; it is not changed) or "failed".
Another run does the missing steps.

--undo undoes the steps that setup has done, and also asks. Things that existed
before stay. A file that was not changed since gets its old content back, byte
for byte; from other files, only teambridge's entry is removed. An invalid file
is not changed. Before setup changes a file, it keeps a copy in the folder setup
of the state directory.

Exit status: 0, even if you decline; 1 a step failed, and the others were still
done; 2 nothing can be set up, since "go run" runs this program; 3 no program
for the named steps is in $PATH; 5 a named step was set up in another way.`,
		Example: `  teambridge setup
  teambridge setup plugin --dry-run
  teambridge setup hooks --project
  teambridge setup --undo --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if !slices.Contains(setup.Names(), name) {
					return usage("the steps and programs are "+strings.Join(setup.Names(), ", "), "there is no step or program %q", name)
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
			if err == nil {
				err = a.setHooks(s, o, names)
			}
			if err != nil {
				return err
			}
			return runSetup(cmd.Context(), a, s, o, names...)
		},
	}
	f := cmd.Flags()
	dryRunFlag(cmd, &o.dryRun, "say what would be done, and change nothing")
	f.BoolVarP(&o.yes, "yes", "y", false, "agree to all steps")
	f.BoolVar(&o.undo, "undo", false, "undo what setup has done")
	f.BoolVar(&o.project, "project", false, "hooks: those of this directory alone")
	f.StringVar(&o.file, "file", "", "hooks: those in this settings file")
	must(cmd.MarkFlagFilename("file", "json"))
	unaskedFlag(cmd, &o.unasked, "hooks: let messages come even to sessions that would ask their persons")
	return cmd
}

// setHooks sets in s which settings file gets the hooks, and how they wait.
func (a *app) setHooks(s *setup.Setup, o setupOptions, names []string) (err error) {
	if (o.project || o.unasked || o.file != "") && !slices.Contains(names, setup.Hooks) {
		return usage("name the step: teambridge setup hooks", "--project, --file and --unasked are for the step hooks")
	}
	if o.unasked && !wake.Supported {
		return usage("omit --unasked", "the waiting hook is for Linux and macOS")
	}
	s.Unasked = o.unasked
	switch {
	case o.project && o.file != "":
		return usage("omit one of them", "--project and --file name two files")
	case o.file != "":
		s.File, err = filepath.Abs(o.file)
	case o.project:
		s.File, err = a.cwd()
		s.File = filepath.Join(s.File, ".claude", "settings.local.json")
	}
	return err
}

func runSetup(ctx context.Context, a *app, s *setup.Setup, o setupOptions, names ...string) error {
	list := []*setup.Step{}
	if o.undo {
		made, err := s.Made(ctx, names...)
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
				if agreed, err = a.agrees(ctx, answers, st.Program+": "+st.Plan); errors.Is(err, io.EOF) {
					only = true // there is no person to agree
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
	if err := printList(&a.console, list, none, []string{"PROGRAM", "STEP", "STATE", "DETAIL"}, func(st *setup.Step) []string {
		first, _, _ := strings.Cut(st.Detail, "\n")
		return []string{st.Program, st.Name, string(st.State), first}
	}); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(list, func(st *setup.Step) bool { return st.Changed && st.Name != setup.Respawn }):
		verb := "get"
		if o.undo {
			verb = "lose"
		}
		a.note("sessions that run already %s it when they are started again", verb)
	case planned > 0 && only:
		again := append([]string{"teambridge setup"}, names...)
		for _, f := range []struct {
			text  string
			given bool
		}{{"--undo", o.undo}, {"--project", o.project}, {"--file " + shell.Quote(o.file), o.file != ""}, {"--unasked", o.unasked}} {
			if f.given {
				again = append(again, f.text)
			}
		}
		a.note("nothing was changed; to agree to all: %s --yes", strings.Join(again, " "))
	}
	return failed
}

// agrees asks the person at the terminal a yes-or-no question. The error is io.EOF if there is no answer.
func (c *console) agrees(ctx context.Context, answers *bufio.Reader, question string) (bool, error) {
	c.writeStderr([]byte(escape(question, false) + "? [y/N] "))
	var answer string
	var err error
	if err := interruptibly(ctx, func() { answer, err = answers.ReadString('\n') }); err != nil {
		return false, err
	}
	if err != nil {
		c.writeStderr([]byte("\n"))
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// setup returns the setup of this user on this machine. With dry, nothing will be changed, so this program need not
// be installed.
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
	s := &setup.Setup{Root: root, Codex: codex.Home(a.lookup), Qwen: qwen.Home(a.lookup), State: a.state, Program: own, Flags: a.ownFlags()}
	s.Path, _ = a.lookup("PATH")
	s.Named = a.claudeDir != ""
	if u, err := a.job(); err == nil {
		s.System = atLogin{u, a}
	}
	return s, nil
}

// ownFlags returns the flag for the state directory, unless it is the default. The Claude directory needs no flag:
// hooks and tools inherit their session's environment, which names it.
func (a *app) ownFlags() []string {
	if home, err := a.home(); err != nil || a.state != filepath.Join(home, ".local", "state", "teambridge") {
		return []string{"--state-dir", a.state}
	}
	return nil
}

// ownBinary returns the path of this program, for hooks, tools and units that run it later.
func ownBinary() (string, error) {
	binary, err := shell.Program()
	if err != nil {
		return "", err
	}
	if strings.Contains(filepath.ToSlash(binary), "/go-build") {
		return "", usage("install it first: go install ./cmd/teambridge", "\"go run\" removes this program when it ends")
	}
	return binary, nil
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/relay/pane"
	"teambridge/relay/stophook"
	"teambridge/status/api"
	"teambridge/status/view"
)

func newHook(a *app) *cobra.Command {
	return group("hook", "Learn when an agent in a terminal ends a turn: install, uninstall",
		`Have Claude Code report the end of each turn of an agent in a terminal.`,
		newHookInstall(a), newHookUninstall(a), newHookStop(a))
}

type hookOptions struct {
	user bool
	file string
}

func (o *hookOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.user, "user", false, "the settings of all your projects: settings.json in Claude Code's directory")
	cmd.Flags().StringVar(&o.file, "file", "", "another settings file")
	must(cmd.MarkFlagFilename("file", "json"))
}

func newHookInstall(a *app) *cobra.Command {
	var o hookOptions
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Add the Stop hook to a settings file",
		Long: `Add a hook to a settings file of Claude Code that reports the end of each turn.

Without the hook, "send --notify-on-stop" to a pane needs a service or a
transcript, and may tell you late.

The file is .claude/settings.local.json in this directory, which is for this
project on this machine alone. All that is in the file stays as it is, byte for
byte, and a file that is not valid is not changed. Installing again changes only
the path of this program. Claude Code reads hooks when it starts.

Exit status: 0; 1 the file could not be written; 5 it is not a regular file; 6
it is no settings file.`,
		Example: `  teambridge hook install
  teambridge hook install --user`,
		RunE: func(cmd *cobra.Command, _ []string) error { return installHook(cmd.Context(), a, o) },
	}
	o.flags(cmd)
	return cmd
}

func newHookUninstall(a *app) *cobra.Command {
	var o hookOptions
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the Stop hook from a settings file",
		Long: `Remove the hook of "teambridge hook install" from a settings file.

What was made for it is removed with it, if it is empty: objects, the file and
its directory. Other hooks stay.

Exit status: 0, even if it was not installed; others are as for "teambridge hook
install".`,
		Example: `  teambridge hook uninstall --user`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return uninstallHook(cmd.Context(), a, o) },
	}
	o.flags(cmd)
	return cmd
}

func newHookStop(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Report the end of a turn; Claude Code runs it",
		Long: `Report the end of a turn of an agent, as a Stop hook of Claude Code.

The JSON of the hook is on standard input. The agent is not kept from stopping:
nothing is printed on standard output, and it takes a second at most.

Exit status: 0; 1 it could not be recorded.`,
		Example: `  teambridge hook stop < hook.json`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return reportStop(cmd.Context(), a) },
	}
}

const (
	stopWithin  = time.Second // for the whole hook
	maxHookJSON = 4 << 20
)

// reportStop reports the end of a turn. Claude Code takes other exit statuses than 0 and 1 as
// an order to go on.
func reportStop(ctx context.Context, a *app) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.wait, stopWithin))
	defer cancel()
	a.leaveOpen = true
	err := func() (err error) {
		defer func() {
			if r := recover(); r != nil { // which would end it with status 2
				err = fmt.Errorf("panic: %v", r)
			}
		}()
		return recordStop(ctx, a)
	}()
	if err == nil {
		return nil
	}
	a.say("teambridge", "the end of the turn was not recorded: "+view.Describe(err))
	return exitStatus(api.ExitError)
}

func recordStop(ctx context.Context, a *app) error {
	var data []byte
	var err error
	if interruptibly(ctx, func() { data, err = io.ReadAll(io.LimitReader(a.stdin, maxHookJSON)) }) != nil {
		return errors.New("standard input does not end")
	}
	if err != nil {
		return err
	}
	var in struct {
		Session    string `json:"session_id"`
		Transcript string `json:"transcript_path"`
		Answer     string `json:"last_assistant_message"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("read the JSON of the hook: %w", err)
	}
	if l, err := a.local().Ledger(ctx); err != nil || l == nil {
		return err // without a ledger nobody has sent anything
	}
	panes, err := a.local().OpenPanes(ctx)
	if err != nil {
		return err
	}
	s := pane.Stop{Session: in.Session, Transcript: in.Transcript, Answer: in.Answer}
	inside, _ := a.lookup("TMUX")
	s.Socket, s.Server = insideTmux(inside)
	s.PaneID, _ = a.lookup("TMUX_PANE")
	return panes.Stopped(ctx, s)
}

// settingsPath returns the path of the settings file that o names.
func settingsPath(a *app, o hookOptions) (string, error) {
	switch {
	case o.user && o.file != "":
		return "", usage("omit one of them", "--user and --file name two files")
	case o.file != "":
		return filepath.Abs(o.file)
	case o.user:
		root, err := a.root()
		if err != nil {
			return "", err
		}
		return filepath.Join(root.Path(), "settings.json"), nil
	}
	cwd, err := a.cwd()
	if err != nil {
		return "", err
	}
	return filepath.Join(cwd, ".claude", "settings.local.json"), nil
}

type hookInstalled struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Command string `json:"command"`
}

func installHook(ctx context.Context, a *app, o hookOptions) (err error) {
	own, err := ownBinary()
	if err != nil {
		return err
	}
	f, err := openHooks(ctx, a, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	answer := hookInstalled{File: f.Path, Command: hookCommand(a, own)}
	if answer.Changed, err = f.Install(own, answer.Command); err != nil {
		return err
	}
	if err := a.answer(answer, "%s  %s\n", orUnchanged("installed", answer.Changed), escape(f.Path, false)); err != nil {
		return err
	}
	if answer.Changed {
		a.note("Claude Code reads hooks when it starts: restart the agents that run already")
	}
	return nil
}

// openHooks opens the settings file that o names.
func openHooks(ctx context.Context, a *app, o hookOptions) (*stophook.File, error) {
	path, err := settingsPath(a, o)
	if err != nil {
		return nil, err
	}
	return stophook.Open(ctx, a.state, path, a.debug)
}

// hookCommand is the command of the hook: own with the directories that it would not find
// by itself.
func hookCommand(a *app, own string) string {
	var flags []string
	if home, err := a.home(); err != nil || a.state != filepath.Join(home, ".local", "state", "teambridge") {
		flags = append(flags, "--state-dir", a.state)
	}
	if a.claudeDir != "" {
		if dir, err := filepath.Abs(a.claudeDir); err == nil {
			flags = append(flags, "--claude-dir", dir)
		}
	}
	return stophook.Command(own, flags...)
}

// ownBinary is the path of this program, for what runs it later.
func ownBinary() (string, error) {
	binary, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if strings.Contains(filepath.ToSlash(binary), "/go-build") {
		return "", usage("install it first: go install ./cmd/teambridge", "\"go run\" removes this program when it ends")
	}
	return binary, nil
}

type hookRemoved struct {
	File    string `json:"file"`
	Removed bool   `json:"removed"`
}

func uninstallHook(ctx context.Context, a *app, o hookOptions) (err error) {
	f, err := openHooks(ctx, a, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	answer := hookRemoved{File: f.Path}
	if answer.Removed, err = f.Uninstall(); err != nil {
		return err
	}
	if !answer.Removed && !a.json {
		a.note("there is no hook of teambridge in %s", f.Path)
		return nil
	}
	return a.answer(answer, "removed  %s\n", escape(f.Path, false))
}

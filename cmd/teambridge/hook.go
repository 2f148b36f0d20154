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
	"teambridge/relay/shell"
	"teambridge/relay/stophook"
	"teambridge/relay/wake"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/transcript"
)

func newHook(a *app) *cobra.Command {
	return group("hook", "Hooks for agents in terminals: install, uninstall",
		`Have Claude Code report the ends of turns, and take messages.`,
		newHookInstall(a), newHookUninstall(a), newHookStop(a), newHookWait(a))
}

type hookOptions struct {
	user bool
	file string

	wake, unasked bool // of install alone
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
		Short: "Add our hooks to a settings file",
		Long: `Add a hook to a settings file of Claude Code that reports the end of each turn.

Without the hook, "send --notify-on-stop" to a pane needs a service or a
transcript, and may tell you late.

With --wake, the waiting hook is added too, through which messages reach
sessions at a terminal whose socket for them is switched off. Beside each of
these sessions, a process waits that needs 5 to 7 MiB and no time. A message
wakes the model even if the session is idle; one that works takes those that
wait in its next turn. It is for Linux and macOS.

A session that bypasses permissions, or whose settings hold messages, asks its
person about each message on its socket. With --wake --unasked, messages come
through the hook even where there is a socket, and nobody is asked: each program
of yours can then make these sessions work.

The file is .claude/settings.local.json in this directory, which is for this
project on this machine alone. All that is in the file stays as it is, byte for
byte, and a file that is not valid is not changed. Installing again changes only
the path of this program and --unasked. Claude Code reads hooks when it starts.

Exit status: 0; 1 the file could not be written; 2 this system has no waiting
hook; 5 it is not a regular file; 6 it is no settings file.`,
		Example: `  teambridge hook install
  teambridge hook install --user --wake`,
		RunE: func(cmd *cobra.Command, _ []string) error { return installHook(cmd.Context(), a, o) },
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.wake, "wake", false, "let sessions without a socket take messages too")
	cmd.Flags().BoolVar(&o.unasked, "unasked", false, "with --wake: for sessions with a socket as well, whose persons are then not asked")
	return cmd
}

func newHookUninstall(a *app) *cobra.Command {
	var o hookOptions
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove our hooks from a settings file",
		Long: `Remove the hooks of "teambridge hook install" from a settings file.

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

func newHookWait(a *app) *cobra.Command {
	pid, unasked := 0, false
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait for a message to a session; Claude Code runs it",
		Long: `Wait for a message to a session at a terminal, as a hook with asyncRewake.

The JSON of the hook is on standard input, and the message comes on standard
error. It ends at once if the session is headless, listens for messages itself
(unless --unasked is given), or has such a process already; and when the session
ends.

Exit status: 0 there was no message; 1 it could not wait; 42 there is a message.`,
		Example: `  teambridge hook wait --pid $PPID < hook.json`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return waitForMessage(cmd.Context(), a, pid, unasked) },
	}
	cmd.Flags().IntVar(&pid, "pid", 0, "the process of Claude Code")
	cmd.Flags().BoolVar(&unasked, "unasked", false, "wait even if the session listens for messages itself")
	return cmd
}

// waitForMessage hands a message to the session in which it is a hook.
func waitForMessage(ctx context.Context, a *app, pid int, unasked bool) error {
	if entry, _ := a.lookup("CLAUDE_CODE_ENTRYPOINT"); entry != "cli" || pid <= 1 || !wake.Supported {
		return nil // "claude -p" would not end
	}
	if _, err := readHook(ctx, a); err != nil {
		return err
	}
	root, err := a.root()
	if err != nil {
		return err
	}
	p, _ := transcript.ProcessWith(root.Path(), pid)
	if pane.ReachOf(a.state, p) == pane.Outdated {
		return nil
	}
	if p.Socket != "" && !unasked {
		if _, err := os.Stat(p.Socket); err == nil {
			return nil
		}
	}
	text, err := wake.Wait(ctx, a.state, wake.Session{PID: pid, Root: root.Path(), Unasked: unasked}, func(ctx context.Context) {
		if !a.unread(ctx) && !wake.Exited(ctx, pid) {
			<-ctx.Done()
		}
	})
	if err != nil || text == "" {
		return err
	}
	if _, err := io.WriteString(a.stderr, text); err != nil {
		return err
	}
	if f, ok := a.stderr.(*os.File); ok {
		wake.Taken(f)
	}
	return exitStatus(stophook.WakeStatus)
}

// hookInput is what Claude Code gives a hook.
type hookInput struct {
	Session    string `json:"session_id"`
	Transcript string `json:"transcript_path"`
	Cwd        string `json:"cwd"`
	Answer     string `json:"last_assistant_message"`
}

func readHook(ctx context.Context, a *app) (in hookInput, err error) {
	var data []byte
	if interruptibly(ctx, func() { data, err = io.ReadAll(io.LimitReader(a.stdin, maxHookJSON)) }) != nil {
		return in, errors.New("standard input does not end")
	}
	if err != nil {
		return in, err
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return in, fmt.Errorf("read the JSON of the hook: %w", err)
	}
	return in, nil
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
	in, err := readHook(ctx, a)
	if err != nil {
		return err
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
	Wake    string `json:"wake,omitempty"` // the command of the waiting hook
}

func installHook(ctx context.Context, a *app, o hookOptions) (err error) {
	if o.wake && !wake.Supported {
		return usage("omit --wake", "the waiting hook is for Linux and macOS")
	}
	if o.unasked && !o.wake {
		return usage("add --wake", "--unasked is for the waiting hook")
	}
	own, err := ownBinary()
	if err != nil {
		return err
	}
	f, err := openHooks(ctx, a, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	flags := a.ownFlags()
	if o.unasked {
		flags = append(flags, stophook.Unasked)
	}
	commands := stophook.CommandsOf(own, flags...)
	if !o.wake {
		commands.Wait = ""
	}
	answer := hookInstalled{File: f.Path, Command: commands.Stop, Wake: commands.Wait}
	if answer.Changed, err = f.Install(own, commands); err != nil {
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

// ownFlags are the flags for the state directory, if this program would not find it by itself later. The Claude directory is not one of
// them: hooks and tools of a session of Claude Code have its environment, and so use the directory that it uses.
func (a *app) ownFlags() []string {
	if home, err := a.home(); err != nil || a.state != filepath.Join(home, ".local", "state", "teambridge") {
		return []string{"--state-dir", a.state}
	}
	return nil
}

// ownBinary is the path of this program, for what runs it later.
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
	answer, others := hookRemoved{File: f.Path}, f.Others()
	if answer.Removed, err = f.Uninstall(); err != nil {
		return err
	}
	if len(others) > 0 && !a.json {
		a.note("the hook stays: it was installed for %s, too, which is the same file", escape(others[0], false))
		return nil
	}
	if !answer.Removed && !a.json {
		a.note("there is no hook of teambridge in %s", f.Path)
		return nil
	}
	return a.answer(answer, "removed  %s\n", escape(f.Path, false))
}

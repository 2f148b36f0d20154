package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/dialog"
	"teambridge/relay/pane"
	"teambridge/relay/stophook"
	"teambridge/relay/wake"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

func newHook(a *app) *cobra.Command {
	return group("hook", "Commands that hooks of Claude Code run: stop, wait, permit",
		`Report the ends of turns, take messages, and wait for answers to dialogs.
"teambridge setup" makes Claude Code run these commands.`,
		newHookStop(a), newHookWait(a), newHookPermit(a))
}

func newHookPermit(a *app) *cobra.Command {
	pid := 0
	cmd := &cobra.Command{
		Use:   "permit",
		Short: "Wait for the answer to a dialog at a terminal; Claude Code runs it",
		Long: `Wait for a person's answer to a session's question at its terminal, as a
PermissionRequest hook.

The JSON of the hook is on standard input, and the answer is printed. The dialog
stays at the terminal, and can be answered there, too: the first answer counts.
The command ends at once, without an answer, if "teambridge setup questions" was
not run, if a subagent asks, or if the session is headless.

Exit status: 0; 1 it could not wait: the dialog stays.`,
		Example: `  teambridge hook permit --pid $PPID < hook.json`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return waitForPermit(cmd.Context(), a, pid) },
	}
	pidFlag(cmd, &pid)
	return cmd
}

// dialogWithin is how long a session may take to show its dialog. After that, the hook ends.
const dialogWithin = time.Minute

// waitForPermit is the PermissionRequest hook. It waits until a person answers the dialog of its session with
// "teambridge permit" or on the page, and prints that decision. It ends without one if the dialog is gone.
func waitForPermit(ctx context.Context, a *app, pid int) error {
	if entry, _ := a.lookup("CLAUDE_CODE_ENTRYPOINT"); entry != "cli" || pid <= 1 || !dialog.IsOn(a.state) {
		return nil
	}
	data, err := readHookJSON(ctx, a)
	if err != nil {
		return err
	}
	use, session, err := claude.HookUse(data)
	if err != nil || use.Subagent != "" || use.Tool == "" {
		return err // a subagent shows no dialog while its hook runs
	}
	root, err := a.root()
	if err != nil {
		return err
	}
	q := dialog.NewQuestion(use)
	q.PID, q.Claude, q.Conversation = pid, root.Path(), session
	var shown time.Time // when the dialog appeared
	over := func() bool {
		p, _ := transcript.ProcessWith(root.Path(), pid)
		q.Start = cmp.Or(q.Start, p.ProcStart)
		switch {
		case p.Session != session || p.ProcStart != q.Start || teams.StateOf(p) == teams.Gone:
			return true
		case p.Status == transcript.ProcessWaiting && shown.IsZero():
			shown = p.Changed
		case p.Status == transcript.ProcessWaiting:
			return !p.Changed.Equal(shown)
		}
		return p.Status != transcript.ProcessWaiting && (!shown.IsZero() || time.Since(q.At) > dialogWithin)
	}
	if over() {
		return nil
	}
	return dialog.Ask(ctx, a.state, q, over, func(d agent.Decision) error {
		line, err := claude.HookDecision(use, d)
		if err == nil {
			_, err = a.stdout.Write(append(line, '\n'))
		}
		return err
	})
}

func newHookStop(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Report the end of a turn; Claude Code runs it",
		Long: `Report the end of a turn of an agent, as a Stop hook of Claude Code.

The JSON of the hook is on standard input. The hook does not keep the agent from
stopping: it prints nothing on standard output, and takes a second at most.

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

The JSON of the hook is on standard input, and the message is printed on
standard error. The command ends when the session ends. It ends at once if the
session is headless, listens for messages itself (unless --unasked is given), or
already has such a process.

Exit status: 0 there was no message; 1 it could not wait; 42 there is a message.`,
		Example: `  teambridge hook wait --pid $PPID < hook.json`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return waitForMessage(cmd.Context(), a, pid, unasked) },
	}
	pidFlag(cmd, &pid)
	unaskedFlag(cmd, &unasked, "wait even if the session listens for messages itself")
	return cmd
}

// waitForMessage is the waiting hook. It waits for a message to its session, and prints it for the agent.
func waitForMessage(ctx context.Context, a *app, pid int, unasked bool) error {
	if entry, _ := a.lookup("CLAUDE_CODE_ENTRYPOINT"); entry != "cli" || pid <= 1 || !wake.Supported {
		return nil // a headless "claude -p" would wait for the hook, and never end
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

// hookInput is the part of a hook's JSON that is used.
type hookInput struct {
	Session    string `json:"session_id"`
	Transcript string `json:"transcript_path"`
	Cwd        string `json:"cwd"`
	Answer     string `json:"last_assistant_message"`
}

// pidFlag adds --pid, the process of Claude Code that started the hook.
func pidFlag(cmd *cobra.Command, pid *int) {
	cmd.Flags().IntVar(pid, "pid", 0, "the process of Claude Code")
}

func readHookJSON(ctx context.Context, a *app) (data []byte, err error) {
	if interruptibly(ctx, func() { data, err = io.ReadAll(io.LimitReader(a.stdin, maxHookJSON)) }) != nil {
		return nil, errors.New("standard input does not end")
	}
	return data, err
}

func readHook(ctx context.Context, a *app) (in hookInput, err error) {
	data, err := readHookJSON(ctx, a)
	if err != nil {
		return in, err
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return in, fmt.Errorf("read the JSON of the hook: %w", err)
	}
	return in, nil
}

const (
	stopWithin  = time.Second // limits the whole Stop hook
	maxHookJSON = 4 << 20
)

// reportStop reports the end of a turn. It exits with 0 or 1, since Claude Code treats any other status as an order
// to continue the turn.
func reportStop(ctx context.Context, a *app) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.wait, stopWithin))
	defer cancel()
	a.leaveOpen = true
	err := func() (err error) {
		defer func() {
			if r := recover(); r != nil { // a panic exits with status 2
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
		return err // without a ledger, no message was ever sent
	}
	panes, err := a.local().OpenPanes(ctx)
	if err != nil {
		return err
	}
	s := pane.Stop{Session: in.Session, Transcript: in.Transcript, Answer: in.Answer}
	inside, _ := a.lookup("TMUX")
	s.Socket, s.Server = insideTmux(inside)
	s.PaneID, _ = a.lookup("TMUX_PANE")
	return panes.Tasks.Stopped(ctx, s)
}

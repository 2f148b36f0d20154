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

	"teambridge/relay/pane"
	"teambridge/relay/stophook"
	"teambridge/relay/wake"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/transcript"
)

func newHook(a *app) *cobra.Command {
	return group("hook", "What hooks of Claude Code run: stop, wait",
		`Report the ends of turns, and take messages. "teambridge setup" has Claude Code
run these commands.`,
		newHookStop(a), newHookWait(a))
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
	unaskedFlag(cmd, &unasked, "wait even if the session listens for messages itself")
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

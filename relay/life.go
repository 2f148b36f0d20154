package relay

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
)

// Life is a session of an agent and its process, from the process's start until its successor starts, as
// recorded in the ledger. Agents of relays have one, and programs at a person's terminal, too (package
// handoff). Each change is committed when the method returns. The caller must hold the inbox: see [Hold].
type Life struct {
	ledger.Session
	Kept    mode.Mode // the mode to work in
	Lost    string    // what the last process could not write; see [agent.Event.Lost]
	Earlier []string  // earlier sessions of the process: /clear and /resume change it

	runtime agent.Runtime
	set     func(context.Context, ledger.Session) error
}

// NewLife continues a recorded session, or begins a new one in mode begin. set writes the record. A resumed
// session keeps its own mode, so that nothing runs with wider permissions than it was sent with. Flags of a
// changed command override that mode, since a person has chosen them since.
func NewLife(s ledger.Session, begin mode.Mode, runtime agent.Runtime, set func(context.Context, ledger.Session) error) (l Life, changed bool, err error) {
	l = Life{Session: s, Kept: begin, runtime: runtime, set: set}
	if s.ID == "" {
		return l, false, nil
	}
	if len(s.Mode) > 0 {
		if l.Kept, err = mode.Parse(s.Mode); err != nil {
			return l, false, fmt.Errorf("relay: the mode of the session in the ledger: %w", err)
		}
	}
	if changed = s.Command != runtime.Command(); changed {
		l.Kept = runtime.Unnamed(l.Kept)
	}
	return l, changed, nil
}

// Await waits for the process of an earlier run, and ends it after patience, with a further grace period. Two
// processes on one session do not know of each other, and would run a message twice. waiting is called before
// the wait.
func (l *Life) Await(ctx context.Context, patience, grace time.Duration, waiting func(reason string) error) error {
	if l.PID == 0 {
		return nil
	}
	old := l.runtime.Predecessor(l.Process())
	if alive, err := old.Alive(); err != nil {
		return fmt.Errorf("relay: the agent of an earlier run: %w", err)
	} else if !alive {
		return nil
	}
	if err := waiting(fmt.Sprintf("the agent of an earlier run (process %d) is still at work", l.PID)); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	err := old.Wait(wait)
	cancel()
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if err := old.End(ctx, grace); err != nil {
		return fmt.Errorf("relay: end the agent of an earlier run (process %d): %w", l.PID, err)
	}
	return nil
}

// Begin records the session before its process starts, so that a crash leaves no unknown process.
func (l *Life) Begin(ctx context.Context, state ledger.RelayState, id string) error {
	l.ID, l.Command, l.At, l.Dead, l.PermissionMode, l.Earlier = id, l.runtime.Command(), time.Now(), "", "", nil
	l.SetProcess(agent.Process{})
	return l.Keep(ctx, state, "")
}

// Began records the process before it receives any input, so that the next run can wait for it.
func (l *Life) Began(ctx context.Context, state ledger.RelayState, p agent.Process) error {
	l.SetProcess(p)
	return l.Keep(ctx, state, "")
}

// Follow records that the process has switched to another session, if it has.
func (l *Life) Follow(ctx context.Context, state ledger.RelayState, id string) error {
	if id == "" || id == l.ID {
		return nil
	}
	l.Earlier = append(l.Earlier, l.ID)
	l.ID = id
	return l.Keep(ctx, state, "")
}

// SetProcess sets the process that [Life.Process] returns.
func (l *Life) SetProcess(p agent.Process) { l.PID, l.Group, l.Start = p.PID, p.Group, p.Start }

// Process returns the process that works on the session; the zero Process if none does.
func (l *Life) Process() agent.Process {
	return agent.Process{PID: l.PID, Group: l.Group, Start: l.Start}
}

// reasons joins its non-empty arguments.
func reasons(list ...string) string {
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), "; ")
}

// Keep records the session with a relay state and its reason.
func (l *Life) Keep(ctx context.Context, state ledger.RelayState, reason string) (err error) {
	if l.State, l.Reason, l.Relay = state, reason, os.Getpid(); !strings.Contains(reason, l.Lost) {
		l.Reason = reasons(reason, l.Lost)
	}
	if l.Mode, err = l.Kept.MarshalJSON(); err != nil {
		return err
	}
	return l.set(ctx, l.Session)
}

package handoff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/terminal"
)

// Options are the options of [Run]. All but Timing and Warn are required.
type Options struct {
	Ledger   Store
	Key      inbox.InboxKey // the inbox; the caller holds its lock: see [relay.Hold]
	Terminal Terminal
	Agent    Agent
	Remote   func(context.Context) (Remote, error) // makes the relay of a remote phase
	Runtime  agent.Runtime                         // the runtime of the relay
	Switch   string                                // the name of the hot key, such as Ctrl-]

	Timing Timing
	Warn   func(error)
}

// Timing has the intervals and limits of a handoff. The default replaces a field that is 0.
type Timing struct {
	Poll        time.Duration // interval of checks for requests, 100 ms; a check takes 0.2 ms
	Idle        time.Duration // how long the program must be idle, 200 ms
	Quiet       time.Duration // how long the person must not type, 1 s
	Draft       time.Duration // limit for copying the draft, 4 s: enough for two tries, since the first may be lost
	Esc         time.Duration // limit for leaving a turn or a dialog, 3 s
	Term        time.Duration // limit for exiting after SIGTERM, 5 s
	Retry       time.Duration // delay before a failure is tried again, 5 s
	Predecessor time.Duration // how long the agent of an earlier run may keep running, 30 s
}

func (t Timing) withDefaults() Timing {
	t.Poll = cmp.Or(t.Poll, 100*time.Millisecond)
	t.Idle = cmp.Or(t.Idle, 200*time.Millisecond)
	t.Quiet = cmp.Or(t.Quiet, time.Second)
	t.Draft = cmp.Or(t.Draft, 4*time.Second)
	t.Esc = cmp.Or(t.Esc, 3*time.Second)
	t.Term = cmp.Or(t.Term, 5*time.Second)
	t.Retry = cmp.Or(t.Retry, 5*time.Second)
	t.Predecessor = cmp.Or(t.Predecessor, 30*time.Second)
	return t
}

// ErrKilled means that something killed the person's program. The next Run continues the session.
var ErrKilled = errors.New("the agent was killed")

// ExitError means that the person ended the program, and that its status was not 0.
type ExitError struct{ Status int }

func (e *ExitError) Error() string { return fmt.Sprintf("the agent exited with status %d", e.Status) }

// Run runs the session until the person ends it or ctx ends; it then returns nil. It returns [ErrKilled], an
// *[ExitError], and the errors of the ledger and of the relay. It leaves none of its processes running.
func Run(ctx context.Context, opts Options) error {
	return newMachine(opts).run(ctx)
}

func newMachine(opts Options) *machine {
	opts.Timing = opts.Timing.withDefaults()
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &machine{opts: opts, keys: opts.Terminal.Keys(), at: func(moment) {}}
}

// machine is the state of the session. Only one goroutine uses it.
type machine struct {
	opts    Options
	session relay.Life
	handoff ledger.Handoff
	keys    <-chan terminal.Key
	cause   string // why the session went to the relay

	at func(moment) // tests kill the process here
}

// moment is a point in the switch at which tests intervene.
type moment string

// The moments.
const (
	begun     moment = "begun"     // the program was started; not yet recorded
	drafted   moment = "drafted"   // the draft was copied; not yet recorded
	committed moment = "committed" // the draft is in the ledger; the program runs
	ended     moment = "ended"     // the program has ended; not yet recorded
	atRelay   moment = "at relay"  // the ledger says that the session is at the relay; nothing runs
	finished  moment = "finished"  // the relay has ended; not yet recorded
	returned  moment = "returned"  // the ledger says that the session is at the terminal; nothing runs
)

// errEnd means that the run was asked to end.
var errEnd = errors.New("ended")

func (m *machine) run(ctx context.Context) error {
	err := m.restore(ctx)
	for err == nil {
		switch {
		case ctx.Err() != nil:
			err = errEnd
		case m.handoff.At == ledger.AtTerminal:
			err = m.local(ctx)
		default:
			err = m.remote(ctx)
		}
	}
	kerr := m.close(context.WithoutCancel(ctx), err)
	if ctx.Err() != nil || errors.Is(err, errEnd) {
		err = nil
	}
	return errors.Join(err, kerr)
}

// close records how the session ended, unless the relay has recorded it.
func (m *machine) close(ctx context.Context, err error) error {
	s, _, rerr := m.opts.Ledger.Session(ctx, m.opts.Key)
	if rerr != nil || s.State != ledger.RelayLocal && s.State != ledger.RelaySwitching {
		return rerr
	}
	m.session.Session = s
	m.session.SetProcess(agent.Process{})
	reason := ""
	if !errors.Is(err, errEnd) && !errors.Is(err, context.Canceled) {
		reason = err.Error()
	}
	return m.session.Keep(ctx, ledger.RelayEnded, reason)
}

// restore finds where an earlier run stopped, and decides where the session continues.
func (m *machine) restore(ctx context.Context) error {
	changed, err := m.read(ctx)
	if err != nil {
		return err
	}
	if err := m.session.Await(ctx, m.opts.Timing.Predecessor, m.opts.Timing.Term, func(string) error {
		m.print("The agent of an earlier run (process %d) is still at work; waiting for it to end.", m.session.PID)
		return nil
	}); err != nil {
		return err
	}
	m.session.SetProcess(agent.Process{})
	if m.handoff.At == ledger.AtTerminal && m.session.ID != "" {
		// Enter submits all text at the prompt, including restored text.
		entered, err := m.opts.Agent.Entered(m.session.ID, m.handoff.Typed)
		if err != nil {
			return fmt.Errorf("handoff: read the text entered last: %w", err)
		}
		// During a switch, the draft is newer than the entered text.
		if switching := m.handoff.To == ledger.AtRelay && m.handoff.Reason == ""; entered && !switching {
			m.handoff.Draft = ""
		}
		if err := m.rescue("", ""); err != nil {
			return err
		}
		if !changed { // otherwise the person has given new flags
			if err := m.permissions(m.session.State == ledger.RelayEnded && m.session.Reason == ""); err != nil {
				return err
			}
		}
	}
	open, err := m.opts.Ledger.OpenCount(ctx, m.opts.Key)
	if err != nil {
		return err
	}
	at := ledger.AtTerminal
	if open > 0 {
		at, m.cause = ledger.AtRelay, ", because messages waited"
	}
	m.arrived(at)
	if m.handoff.Wanted != "" { // the request was to an earlier run
		m.handoff.Wanted, m.handoff.Force, m.handoff.Refused = "", false, "the run that got the request has ended, and the session was started again"
	}
	return m.record(ctx)
}

// read reads the recorded session. changed is true if the person's command differs from the recorded one.
func (m *machine) read(ctx context.Context) (changed bool, err error) {
	s, _, err := m.opts.Ledger.Session(ctx, m.opts.Key)
	if err != nil {
		return false, err
	}
	s.InboxKey = m.opts.Key
	if m.session, changed, err = relay.NewLife(s, mode.Mode{}, m.opts.Runtime, func(ctx context.Context, s ledger.Session) error {
		return m.opts.Ledger.SetSession(context.WithoutCancel(ctx), s)
	}); err != nil {
		return changed, err
	}
	m.handoff, _, err = m.opts.Ledger.Handoff(ctx, m.opts.Key)
	m.handoff.InboxKey = m.opts.Key
	return changed, err
}

// alone waits until no other process uses the session.
func (m *machine) alone(ctx context.Context) error {
	for told := 0; ; {
		pid := m.opts.Agent.Elsewhere(m.session.ID, m.session.Process())
		if pid == 0 {
			return nil
		}
		if pid != told {
			m.print("Process %d uses this session, too; waiting for it to end, because neither would see the other's work. claude agents lists agents in the background, and claude stop ends one. Ctrl-C ends the run.", pid)
			told = pid
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case k, ok := <-m.keys:
			if !ok {
				m.keys = nil // the terminal is gone
			}
			if k.Text == ctrlC {
				return errEnd
			}
		case <-time.After(m.opts.Timing.Poll):
		}
	}
}

// rescue adds entered but unprocessed text, and the text that was typed last, to the draft.
func (m *machine) rescue(draft, typed string) error {
	draft = cmp.Or(draft, m.handoff.Draft) + typed
	unrun, err := m.opts.Agent.Unrun(m.session.ID, m.handoff.Typed)
	if err != nil {
		return fmt.Errorf("handoff: read the text entered last: %w", err)
	}
	var lost []string
	for _, text := range unrun {
		if !strings.Contains(draft, strings.TrimSpace(text)) {
			lost = append(lost, text)
		}
	}
	if draft != "" {
		lost = append(lost, draft)
	}
	m.handoff.Draft = strings.Join(lost, "\n")
	return nil
}

// arrived records the session's place. A request to move the session there is then granted.
func (m *machine) arrived(at ledger.Place) {
	h := &m.handoff
	h.At, h.To, h.Reason, h.Since, h.Refused = at, "", "", time.Now(), ""
	if h.Wanted == at {
		h.Wanted, h.Force = "", false
	}
}

// record writes the session's place to the ledger. An open request stays unless m.handoff.Wanted is empty.
func (m *machine) record(ctx context.Context) error {
	return m.opts.Ledger.SetHandoff(context.WithoutCancel(ctx), m.handoff)
}

// print shows a message to the person while no program runs.
func (m *machine) print(format string, args ...any) {
	m.show("⧖ " + fmt.Sprintf(format, args...) + "\n")
}

func (m *machine) show(text string) {
	if err := m.opts.Terminal.Print(text); err != nil {
		m.opts.Warn(err)
	}
}

// exitOf classifies the exit of a program that we did not end.
func exitOf(err error) error {
	if err == nil {
		return errEnd
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	// Claude Code catches signals, and then exits with status 128 plus the signal's number.
	if status := exit.ExitCode(); status > 0 && status < 128 {
		return &ExitError{status}
	}
	return fmt.Errorf("%w: %w", ErrKilled, err)
}

// ctrlC is the key that interrupts a turn.
const ctrlC = "\x03"

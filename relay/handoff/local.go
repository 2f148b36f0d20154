package handoff

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude/interactive"
	"teambridge/relay/terminal"
)

// terminalPhase is the state of the session while it is at the person's terminal.
type terminalPhase struct {
	*machine
	launch  Launch
	program Program

	state interactive.State
	since time.Time // when the phase began
	ready time.Time // when the program was first idle; zero before that

	key     bool // the person pressed the key
	force   bool // switch even while the program is busy
	escs    int  // number of Esc keys sent to force the switch
	esc     time.Time
	tried   time.Time // when copying the draft last failed
	seen    time.Time // when obstacles were last checked
	block   string    // the obstacle found at that time
	refused time.Time // when the obstacle was last reported
	why     string    // why the last try to switch failed
	warned  string
	broken  bool // the program had to be killed
}

// local runs the session at the person's terminal, until it moves to the relay or ends.
func (m *machine) local(ctx context.Context) (err error) {
	if m.session.ID != "" {
		if err := m.alone(ctx); err != nil {
			return err
		}
	}
	launch, err := m.opts.Agent.Launch(Start{Session: m.session.ID, Prefill: m.handoff.Draft, Mode: m.session.Kept})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := launch.Close(); err == nil {
			err = cerr
		}
	}()
	if err := m.session.Begin(ctx, ledger.RelaySwitching, launch.Session()); err != nil {
		return err
	}
	m.handoff.Typed = time.Now()
	if err := m.record(ctx); err != nil {
		return err
	}
	program, err := m.opts.Terminal.Start(launch.Cmd())
	if err != nil {
		return fmt.Errorf("handoff: start the agent: %w", err)
	}
	m.at(begun)
	l := &terminalPhase{machine: m, launch: launch, program: program, since: time.Now()}
	defer m.opts.Terminal.SetNotice("")
	if err := m.session.Began(ctx, ledger.RelayLocal, program.ID()); err != nil {
		l.end()
		return err
	}
	err = l.follow(ctx)
	if err != nil {
		l.end() // it may still be running
	}
	return err
}

// follow watches the program until it has ended. It returns nil if the session has moved to the relay.
func (l *terminalPhase) follow(ctx context.Context) error {
	tick := time.NewTicker(l.opts.Timing.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return l.leave(ctx)
		case <-l.program.Done():
			err := exitOf(l.program.Wait())
			if !errors.Is(err, ErrKilled) { // the person has ended it, and discarded any draft
				l.handoff.Draft = ""
				err = errors.Join(err, l.record(ctx))
			}
			return err
		case k, ok := <-l.keys:
			if !ok {
				l.keys = nil // the terminal is gone
			}
			if !k.Hot {
				continue
			}
			if l.key || l.handoff.Reason != "" {
				l.force = true
			}
			l.key = true
		case <-tick.C:
		}
		gone, err := false, l.look(ctx)
		if err == nil {
			gone, err = l.decide(ctx)
		}
		if !gone && ctx.Err() != nil {
			return l.leave(ctx) // the error is a consequence of the end of ctx
		}
		if gone || err != nil {
			return err
		}
	}
}

// look updates the state of the program.
func (l *terminalPhase) look(ctx context.Context) error {
	now, err := l.launch.Look(l.program.ID().PID)
	if err != nil {
		if err.Error() != l.warned {
			l.opts.Warn(err)
		}
		l.warned = err.Error()
		now = interactive.State{Status: interactive.Starting, For: err.Error(), Session: l.session.ID}
	}
	if now.Status != l.state.Status {
		l.since = time.Now()
	}
	l.state = now
	if err := l.session.Follow(ctx, ledger.RelayLocal, now.Session); err != nil {
		return err
	}
	if now.Status != interactive.Idle {
		return nil
	}
	if l.ready.IsZero() {
		if !l.program.Pastes() {
			// The program can report that it is idle before it accepts keys.
			l.state.Status = interactive.Starting
			return nil
		}
		l.ready = time.Now()
		if text := l.launch.Paste(); text != "" {
			if err := l.program.Write([]byte("\x1b[200~" + text + "\x1b[201~")); err != nil {
				return err
			}
		}
	}
	// Text entered earlier is in the transcript, and prefilled text now belongs to the person, so forget the
	// draft.
	typed := time.Now().Add(-l.program.Quiet())
	if l.program.Quiet() > 2*l.opts.Timing.Quiet && typed.After(l.handoff.Typed) && typed.After(l.ready) {
		l.handoff.Typed, l.handoff.Draft = time.Now(), ""
		return l.record(ctx)
	}
	return nil
}

// decide moves the session to the relay when the time has come. gone reports whether it has moved.
func (l *terminalPhase) decide(ctx context.Context) (gone bool, err error) {
	wish, _, err := l.opts.Ledger.Handoff(ctx, l.opts.Key)
	if err != nil {
		return false, err
	}
	l.handoff.Wanted, l.handoff.Force, l.handoff.Wish = wish.Wanted, wish.Force, wish.Wish
	if wish.Wanted == ledger.AtTerminal { // the session is already there
		l.handoff.Wanted, l.handoff.Refused = "", ""
		l.key, l.force = false, false
		if err := l.record(ctx); err != nil {
			return false, err
		}
	}
	waiting, _, err := l.opts.Ledger.OpenPrompts(ctx, l.opts.Key, l.handoff.Returned)
	if err != nil {
		return false, err
	}
	wanted := l.handoff.Wanted == ledger.AtRelay
	if waiting == 0 && !wanted && !l.key {
		l.force, l.escs, l.why = false, 0, ""
		if time.Since(l.refused) > l.opts.Timing.Retry {
			l.block = ""
		}
		return false, l.hold(ctx, 0, l.block)
	}
	switch {
	case waiting > 0:
		l.cause = ", because of a message"
	case wanted:
		l.cause = ", because of \"teambridge switch\""
	default:
		l.cause = ""
	}
	force := l.force || wanted && l.handoff.Force
	reason, err := l.obstacle(ctx)
	if err != nil {
		return false, err
	}
	if reason != "" {
		return false, l.refuse(ctx, waiting, reason)
	}
	ready := false
	if ready, reason = l.idle(force); !ready && force {
		ready, err = l.escape()
	}
	if ready && err == nil {
		gone, reason, err = l.leaveFor(ctx, force)
	}
	if gone || err != nil {
		return gone, err
	}
	return false, l.hold(ctx, waiting, reason)
}

// obstacle returns what the end of the program would destroy, or "". It checks once a second.
func (l *terminalPhase) obstacle(ctx context.Context) (string, error) {
	if time.Since(l.seen) < time.Second {
		return l.block, nil
	}
	var err error
	l.block, err = l.opts.Agent.Obstacle(ctx, l.session.ID, l.session.Earlier...)
	l.seen = time.Now()
	return l.block, err
}

// refuse answers a request to switch that cannot be granted. The prompts keep waiting.
func (l *terminalPhase) refuse(ctx context.Context, waiting int, reason string) error {
	l.key, l.force, l.refused = false, false, time.Now()
	if l.handoff.Wanted == ledger.AtRelay {
		l.handoff.Wanted, l.handoff.Refused = "", reason
		if err := l.record(ctx); err != nil {
			return err
		}
	}
	return l.hold(ctx, waiting, reason)
}

// hold records and shows the reason why the session stays at the terminal.
func (l *terminalPhase) hold(ctx context.Context, waiting int, reason string) error {
	notice := ""
	if reason != "" {
		if notice = "⧖ switching waits: "; waiting == 1 {
			notice = "⧖ 1 message waits: "
		} else if waiting > 1 {
			notice = fmt.Sprintf("⧖ %d messages wait: ", waiting)
		}
		notice += reason
		if l.block == "" {
			notice += "; " + l.opts.Switch + " switches now"
		}
		notice += " · "
	}
	l.opts.Terminal.SetNotice(notice)
	if reason == l.handoff.Reason {
		return nil
	}
	l.handoff.Reason = reason
	if l.handoff.To = ""; reason != "" {
		l.handoff.To = ledger.AtRelay
	}
	return l.record(ctx)
}

// idle reports whether the program can be ended now, and otherwise the reason.
func (l *terminalPhase) idle(force bool) (bool, string) {
	switch l.state.Status {
	case interactive.Idle:
		if time.Since(l.since) < l.opts.Timing.Idle || !l.key && !force && l.program.Quiet() < l.opts.Timing.Quiet {
			return false, l.why
		}
		if !force && l.why != "" && time.Since(l.tried) < l.opts.Timing.Retry {
			return false, l.why
		}
		return true, ""
	case interactive.Busy:
		return false, "the turn is not over"
	case interactive.Waiting:
		return false, strings.TrimSpace("it waits for you in a dialog " + parenthesis(l.state.For))
	case interactive.Shell:
		return false, "a shell command runs"
	}
	return false, strings.TrimSpace("it is starting " + parenthesis(l.state.For))
}

func parenthesis(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

// escape ends a turn or a dialog with Esc. It returns true once further tries are pointless.
func (l *terminalPhase) escape() (bool, error) {
	if l.state.Status == interactive.Idle || l.escs > 0 && time.Since(l.esc) < l.opts.Timing.Esc {
		return false, nil
	}
	if l.escs == 2 {
		return true, nil
	}
	l.escs++
	l.esc = time.Now()
	return false, l.program.Write([]byte{esc})
}

const (
	esc   = 0x1b
	ctrlG = 0x07
)

// leaveFor ends the program, and records that the session is at the relay. If it does not, reason says why.
func (l *terminalPhase) leaveFor(ctx context.Context, force bool) (gone bool, reason string, err error) {
	l.program.Block()
	defer func() {
		if !gone {
			l.program.Unblock()
		}
	}()
	draft, ok, err := l.draft(ctx, l.opts.Timing.Draft)
	if err != nil {
		return false, "", err
	}
	if !ok && ctx.Err() != nil {
		return false, "", ctx.Err() // ctx has ended while the draft was copied
	}
	if !ok && !force {
		l.why, l.tried = "the text at the prompt cannot be copied", time.Now()
		return false, l.why, nil
	}
	l.at(drafted)
	before := l.handoff
	if err := l.look(ctx); err != nil {
		return false, "", err
	}
	if l.state.Status != interactive.Idle && !force {
		return false, "", nil // the next look finds the reason
	}
	typed := l.program.Take()
	l.handoff.Draft = draft + terminal.Text(typed)
	l.handoff.To, l.handoff.Reason = ledger.AtRelay, ""
	if err := l.record(ctx); err != nil {
		return false, "", err
	}
	l.at(committed)
	l.seen = time.Time{} // makes obstacle check again
	if reason, err = l.obstacle(ctx); reason != "" || err != nil {
		l.handoff.Draft, l.handoff.To = before.Draft, before.To
		err = errors.Join(err, l.record(ctx), l.program.Write(typed))
		return false, reason, err
	}
	if err := l.session.Keep(ctx, ledger.RelaySwitching, ""); err != nil {
		return false, "", err
	}
	l.end()
	l.at(ended)
	return true, "", l.arrive(ctx, terminal.Text(l.program.Take()))
}

// arrive records that the session is at the relay, after the program has ended.
func (l *terminalPhase) arrive(ctx context.Context, typed string) error {
	if err := l.rescue(l.handoff.Draft, typed); err != nil {
		return err
	}
	l.handoff.Typed = time.Now() // entered text is in the transcript or in the draft
	if err := l.permissions(!l.broken); err != nil {
		return err
	}
	l.session.SetProcess(agent.Process{})
	if err := l.session.Keep(ctx, ledger.RelaySwitching, ""); err != nil {
		return err
	}
	l.arrived(ledger.AtRelay)
	err := l.record(ctx)
	l.at(atRelay)
	return err
}

// leave ends the program because the run ends, and keeps the draft if the program hands it over.
func (l *terminalPhase) leave(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := l.look(ctx); err != nil {
		l.opts.Warn(err)
	}
	if l.state.Status != interactive.Starting && l.state.Status != interactive.Waiting {
		l.program.Block()
		// Unlike a switch, this cannot be tried again, so it gets more time.
		draft, ok, err := l.draft(ctx, 5*l.opts.Timing.Draft)
		if ok && err == nil {
			l.handoff.Draft = draft + terminal.Text(l.program.Take())
			l.end()
			// Entered text is now in the draft or in the transcript.
			err = l.rescue(l.handoff.Draft, terminal.Text(l.program.Take()))
			l.handoff.Typed = time.Now()
			err = errors.Join(err, l.record(ctx))
		}
		if err != nil {
			l.opts.Warn(err)
		}
	}
	l.end()
	return errEnd
}

// draft copies the text at the prompt. ok is false if the program does not hand it over, for example in a
// dialog.
func (l *terminalPhase) draft(ctx context.Context, limit time.Duration) (text string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-l.program.Done():
			cancel()
		case <-ctx.Done():
		}
	})
	defer watching.Wait()
	defer cancel()
	return l.launch.TakeDraft(ctx, func() error { return l.program.Write([]byte{ctrlG}) })
}

// end ends the program, if it runs.
func (l *terminalPhase) end() {
	for _, s := range endSignals {
		if err := l.program.Signal(s); err != nil {
			break
		}
	}
	select {
	case <-l.program.Done():
	case <-time.After(l.opts.Timing.Term):
		l.broken = true
		if err := l.program.Kill(); err != nil {
			l.opts.Warn(err)
		}
		<-l.program.Done()
	}
	_ = l.program.Wait() // ignore the status: we ended the program
}

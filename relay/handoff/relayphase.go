package handoff

import (
	"context"
	"errors"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/terminal"
)

// permissions keeps the permission mode in which the person left the session for the next phase, so that a
// message never widens plan mode. If the program had no clean end, its last change of mode may not be in the
// session; the mode is then not widened.
func (m *machine) permissions(clean bool) error {
	left, err := m.opts.Agent.PermissionMode(m.session.ID)
	if err != nil || left == "" {
		return err
	}
	if was, ok := m.session.Kept.PermissionMode.Value(); clean || !ok || mode.Wider(was, left) {
		m.session.Kept.PermissionMode = mode.Set(left)
	}
	return nil
}

// remote runs the session at the relay, until it moves to the terminal or ends.
func (m *machine) remote(ctx context.Context) error {
	if m.session.ID != "" {
		if err := m.alone(ctx); err != nil {
			return err
		}
	}
	relay, err := m.opts.Remote(ctx)
	if err != nil {
		return err
	}
	// The program's last output may end with an unfinished line.
	m.show("\r\x1b[J")
	m.print("The session is at the relay%s. %s takes it back to this terminal.", m.cause, m.opts.Switch)
	m.cause = ""
	r := &relayPhase{machine: m, relay: relay}
	// ctx does not end the agent, which may finish its turn.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	done := make(chan error, 1)
	go func() { done <- relay.Run(running) }()
	err = r.follow(ctx, done)
	stop()
	if r.interrupted != nil {
		<-r.interrupted
	}
	if err != nil {
		return err
	}
	if !r.finishing {
		return errEnd
	}
	m.at(finished)
	return m.back(ctx)
}

// relayPhase is the state of the session while it is at the relay.
type relayPhase struct {
	*machine
	relay Remote
	stop  context.CancelFunc

	finishing   bool       // the session moves to the terminal after this turn
	interrupted chan error // receives the result of the running interrupt; nil if there is none
	forced      bool       // another process has requested the interrupt
	warned      time.Time  // when the person was last warned that another Ctrl-C ends the run
}

// follow handles keys, requests and interrupts until the relay ends.
func (r *relayPhase) follow(ctx context.Context, done <-chan error) error {
	tick := time.NewTicker(r.opts.Timing.Poll)
	defer tick.Stop()
	ending := ctx.Done()
	for {
		select {
		case err := <-done:
			return err
		case <-ending:
			ending, r.finishing = nil, false
			r.stop()
		case err := <-r.interrupted:
			r.interrupted = nil
			r.answer(err)
		case k, ok := <-r.keys:
			if !ok {
				r.keys = nil // the terminal is gone
				continue
			}
			if err := r.pressed(ctx, k); err != nil {
				return errors.Join(err, r.await(done))
			}
		case <-tick.C:
			if err := r.wish(ctx); err != nil {
				return errors.Join(err, r.await(done))
			}
		}
	}
}

func (r *relayPhase) await(done <-chan error) error {
	r.stop()
	return <-done
}

// wish handles a request of another process to move the session.
func (r *relayPhase) wish(ctx context.Context) error {
	h, _, err := r.opts.Ledger.Handoff(ctx, r.opts.Key)
	if err != nil || h.Wanted == "" {
		return err
	}
	r.handoff.Wanted, r.handoff.Force, r.handoff.Wish = h.Wanted, h.Force, h.Wish
	switch {
	case h.Wanted == ledger.AtRelay && !r.finishing:
		r.handoff.Wanted, r.handoff.Refused = "", "" // the session is already there
		return r.record(ctx)
	case h.Wanted == ledger.AtTerminal && !r.finishing:
		if err := r.finish(ctx); err != nil {
			return err
		}
	}
	if h.Wanted == ledger.AtTerminal && h.Force && !r.forced && r.interrupted == nil {
		r.forced = true
		r.interrupt(ctx)
	}
	return nil
}

func (r *relayPhase) pressed(ctx context.Context, k terminal.Key) error {
	switch {
	case k.Hot && !r.finishing:
		return r.finish(ctx)
	case k.Hot && r.interrupted != nil, k.Text == ctrlC && (r.interrupted != nil || time.Since(r.warned) < r.opts.Timing.Retry):
		r.finishing = k.Hot
		r.print("Ending the agent.")
		r.stop()
	case k.Hot, k.Text == ctrlC:
		r.interrupt(ctx)
	default:
		r.relay.Key(k)
	}
	return nil
}

// finish moves the session to the terminal after the running turn.
func (r *relayPhase) finish(ctx context.Context) error {
	r.finishing = true
	r.handoff.To = ledger.AtTerminal
	r.relay.Finish()
	if r.relay.Working() {
		r.print("The session comes back to this terminal after the turn that runs. %s interrupts it.", r.opts.Switch)
	} else {
		r.print("The session comes back to this terminal.")
	}
	return r.record(ctx)
}

func (r *relayPhase) interrupt(ctx context.Context) {
	done := make(chan error, 1)
	r.interrupted = done
	go func() { done <- r.relay.Interrupt(ctx) }()
}

// answer reports the result of an interrupt to the person.
func (r *relayPhase) answer(err error) {
	switch {
	case err == nil:
		r.print("The turn was interrupted.")
	case errors.Is(err, agent.ErrNotInFlight) && !r.finishing:
		r.warned = time.Now()
		r.print("No turn runs. Ctrl-C again ends the run.")
	case !errors.Is(err, context.Canceled):
		r.opts.Warn(err)
	}
}

// back records that the session is at the terminal. Prompts that are waiting now do not move it away again.
func (m *machine) back(ctx context.Context) error {
	draft := m.handoff.Draft
	if _, err := m.read(ctx); err != nil { // the relay may have changed it
		return err
	}
	_, newest, err := m.opts.Ledger.OpenPrompts(ctx, m.opts.Key, m.handoff.Returned)
	if err != nil {
		return err
	}
	m.handoff.Draft, m.handoff.Returned = draft, newest
	m.arrived(ledger.AtTerminal)
	err = m.record(ctx)
	m.at(returned)
	return err
}

package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
)

// agentProcess is the agent's process, if one runs.
type agentProcess struct {
	proc    agent.Agent // nil if none runs
	events  chan agent.Event
	reading sync.WaitGroup
	started time.Time
	mode    mode.Mode // its current mode; differs from Life.Kept only while a frame is made
	lost    bool      // it reported lost writes
	spoke   bool      // it has printed output of a turn
	version string    // of Claude Code; empty until the agent has printed it
}

// grace is the default of Relay.grace.
var grace = agent.Grace{EOF: 30 * time.Second, Term: 5 * time.Second}

// restore finds the frame and session of an earlier relay in the ledger, and starts the agent unless it was asleep.
func (l *loop) restore(ctx context.Context) error {
	var s ledger.Session
	err := l.insist(ctx, func(ctx context.Context) (err error) {
		s, _, err = l.ledger.Session(ctx, l.post)
		return err
	})
	if err != nil {
		return err
	}
	s.InboxKey = l.post
	var changed bool
	if l.session, changed, err = NewLife(s, l.opts.Mode, l.opts.Runtime, l.setSession); err != nil {
		return err
	}
	// Otherwise each start of a service would start the agents of all its relays at once.
	asleep := l.opts.IdleExit > 0 && !changed && (s.State == ledger.RelayAsleep || s.State == ledger.RelayEnded && s.Reason == ledger.EndedAsleep)
	if err := l.insist(ctx, l.clearHandoff); err != nil {
		return err
	}
	if l.session.ID == "" {
		l.session.ID = cmp.Or(l.opts.Session, uuid.NewString())
	}
	if err := l.session.Await(ctx, l.opts.Predecessor, l.grace.Term, func(reason string) error {
		l.set(func(s *Status) { s.State, s.Reason = Waiting, reason })
		return l.session.Keep(ctx, ledger.RelayWaiting, reason)
	}); err != nil {
		return err
	}
	l.recorder.resume(ctx, l.session.Session)
	if err := l.insist(ctx, func(ctx context.Context) error {
		f, found, err := l.ledger.InFlight(ctx, l.post)
		if found {
			f.Tries = max(f.Tries, 1) // a power cut may have lost the count
			l.frame = &flight{Frame: f}
		}
		return err
	}); err != nil {
		return err
	}
	l.dirty = true
	if asleep {
		return l.sleep(ctx)
	}
	return l.start(ctx, l.session.Kept)
}

// clearHandoff removes the record that the session was once at a terminal: from now on it stays with the
// relay.
func (l *loop) clearHandoff(ctx context.Context) error {
	if l.opts.Held != nil {
		return nil // the launcher will take it back
	}
	h, found, err := l.opts.Ledger.Sessions.Handoff(ctx, l.post)
	if err != nil || !found {
		return err
	}
	if h.Draft != "" {
		l.opts.Warn(fmt.Errorf("relay: this was at the prompt when the session of %s was last at a terminal, and was not entered: %q", l.opts.Member, h.Draft))
	}
	return l.opts.Ledger.Sessions.RemoveHandoff(ctx, l.post)
}

// follow switches to the session that the conversation was moved to, and waits while another process holds
// it.
func (l *loop) follow(ctx context.Context) error {
	movable, ok := l.opts.Runtime.(agent.Movable)
	for told := ""; ok; {
		now, holder := movable.Moved(l.session.ID)
		l.session.ID = now
		if holder == "" {
			return nil
		}
		if holder != told {
			told = holder
			l.set(func(s *Status) { s.State, s.Reason = Waiting, holder })
			if err := l.session.Keep(ctx, ledger.RelayWaiting, holder); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(l.opts.Timing.Backoff):
		}
	}
	return nil
}

// start starts the agent in a mode. It resumes its session, if there is one.
func (l *loop) start(ctx context.Context, mode mode.Mode) error {
	if err := l.follow(ctx); err != nil {
		return err
	}
	if err := l.session.Begin(ctx, ledger.RelayStarting, l.session.ID); err != nil {
		return err
	}
	l.set(func(s *Status) { s.State, s.Session, s.Reason = Starting, l.session.ID, "" })
	// Without cancellation: when the relay is ended, the agent may finish its turn.
	proc, err := l.opts.Runtime.Start(context.WithoutCancel(ctx), l.session.ID, mode)
	if errors.Is(err, agent.ErrUnusable) {
		l.opts.Warn(fmt.Errorf("relay: %s was killed before its first turn was stored; it starts a new conversation and does not remember that turn: %w", l.opts.Member, err))
		l.session.ID = uuid.NewString()
		return l.start(ctx, mode)
	}
	if err != nil {
		return fmt.Errorf("relay: start the agent: %w", err)
	}
	p := proc.ID()
	if err := l.session.Began(ctx, ledger.RelayRunning, p); err != nil {
		return errors.Join(err, proc.Kill())
	}
	l.proc, l.spoke, l.started = proc, false, time.Now()
	l.mode = proc.Mode()
	l.idler = idler{active: l.started}
	l.events = make(chan agent.Event, 256)
	events := l.events
	l.reading.Go(func() { agent.Forward(context.Background(), proc, events) })
	l.move(func() { l.child = proc })
	l.set(func(s *Status) { s.PID = p.PID })
	return nil
}

// stop ends the agent, if one runs, and handles its remaining output.
func (l *loop) stop(ctx context.Context) error {
	if l.proc == nil {
		return nil
	}
	proc, events := l.proc, l.events
	done := make(chan error, 1)
	go func() { done <- proc.End(context.WithoutCancel(ctx), l.grace) }()
	var lost error
	for e := range events {
		if lost != nil {
			l.recorder.observe(l.session.ID, e)
			l.opts.Events(e) // not recorded; the next relay finds out from the transcript
		} else {
			lost = l.event(ctx, e)
		}
	}
	err := <-done
	_ = l.forget() // its end was requested
	return errors.Join(lost, err)
}

// forget drops an agent that has exited, and returns its exit error.
func (l *loop) forget() error {
	err := l.proc.Wait(context.Background())
	l.reading.Wait()
	l.move(func() { l.child, l.began = nil, false })
	l.proc, l.events = nil, nil
	l.session.SetProcess(agent.Process{})
	if l.frame != nil {
		l.frame.sent = false
	}
	if !l.lost {
		l.session.Lost = "" // there is disk space again
	}
	l.lost = false
	if err == nil {
		err = errors.New("it exited with status 0")
	}
	return err
}

// agentExited handles an agent that exits without being asked to.
func (l *loop) agentExited(ctx context.Context) error {
	atWork := l.frame != nil && l.frame.sent
	why := l.forget()
	l.set(func(s *Status) { s.PID, s.Deaths = 0, s.Deaths+1 })
	l.recorder.resume(ctx, l.session.Session)
	// Whether it is started again is decided below.
	if err := l.session.Keep(ctx, ledger.RelayStarting, ""); err != nil {
		return err
	}
	l.probation = l.frame != nil && (atWork && !l.spoke || l.probation)
	if atWork {
		if _, err := l.resolve(ctx, facts{news: died, exit: why}); err != nil {
			return err
		}
	}
	if !l.spoke || time.Since(l.started) < deadWithin {
		l.deaths++
	}
	if l.deaths >= MaxStarts {
		reason := fmt.Sprintf("it ended %d times in a row without getting anywhere: %v", l.deaths, why)
		l.session.Dead = reason
		if err := l.session.Keep(ctx, ledger.RelayDead, reason); err != nil {
			return err
		}
		l.set(func(s *Status) { s.State, s.Reason = Dead, reason })
		return fmt.Errorf("relay: %s: %w: %w", l.opts.Member, ErrDead, why)
	}
	l.backoff = min(max(2*l.backoff, l.opts.Timing.Backoff), 60*l.opts.Timing.Backoff)
	l.retry = time.After(l.backoff)
	if err := l.session.Keep(ctx, ledger.RelayBackOff, why.Error()); err != nil {
		return err
	}
	l.set(func(s *Status) { s.State, s.Reason = BackOff, reasons(why.Error(), l.session.Lost) })
	l.opts.Warn(fmt.Errorf("relay: %s ended (%w) and is started again in %s", l.opts.Member, why, l.backoff))
	return nil
}

// end lets the agent finish its turn, records how that ended, and ends the agent. why is the error that ended the
// relay; nil after the end of its context or after [Relay.Finish].
func (l *loop) end(ctx context.Context, why error) error {
	// The context has ended, but what the agent still prints must be recorded.
	ctx = context.WithoutCancel(ctx)
	l.ending = true
	err := l.stop(ctx)
	if l.session.ID == "" || l.session.Dead != "" {
		return err // it never started, or has reported its end
	}
	reason := ""
	switch {
	case why != nil:
		reason = why.Error()
	case l.asleep:
		reason = ledger.EndedAsleep
	}
	return errors.Join(err, l.session.Keep(ctx, ledger.RelayEnded, reason))
}

package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/teams"
)

// idler is the state of an agent that may be ended when it is idle. See [Options.IdleExit].
type idler struct {
	active time.Time // when the agent was started or last printed
	turn   bool      // a turn is running: a frame's, or a background task's
	agent.Background

	idle   <-chan time.Time // fires when the agent has been idle long enough; nil while it works
	needed string           // why it was kept alive when the timer last fired; empty if nothing kept it
	warned bool             // a warning about needed was given

	closing bool             // its stdin is closed
	late    <-chan time.Time // fires when it should have exited
	asleep  bool             // it has exited, and no message has arrived since
}

// event updates the state after an event of the agent.
func (i *idler) event(e agent.Event) {
	i.active, i.idle, i.needed = time.Now(), nil, ""
	switch {
	case e.Start != nil:
		i.turn = true
	case e.Result != nil:
		i.turn = false
	}
	if e.Background != nil {
		i.Background = *e.Background
	}
}

// setIdle starts the idle timer if the agent is idle, and stops it if not. empty means that no delivery
// waits.
func (l *loop) setIdle(empty bool) {
	switch {
	case l.opts.IdleExit <= 0:
	case !empty || l.frame != nil || l.turn || l.Tasks > 0 || l.dirty || l.more:
		l.idle = nil
	case l.idle == nil:
		l.idle = time.After(time.Until(l.active.Add(l.opts.IdleExit)))
	}
}

// close closes the stdin of an idle agent, which then exits. Until it has exited it may still run a turn of a
// background task, and all its messages wait.
func (l *loop) close(ctx context.Context) error {
	l.at(idle)
	if len(l.events) > 0 {
		return nil // it has printed something meanwhile
	}
	open, err := l.ledger.OpenCount(ctx, l.post)
	if err != nil || open > 0 {
		return l.postpone(ctx, err)
	}
	config, err := l.config(ctx)
	if errors.Is(err, teams.ErrTeamGone) || ctx.Err() != nil {
		return err
	}
	if err == nil {
		l.needed, err = l.dependents(config)
	}
	if err != nil {
		l.needed = err.Error() // unknown which agents would be lost
	}
	if l.needed != "" {
		if !l.warned {
			l.opts.Warn(fmt.Errorf("relay: %s is idle and is not ended: %s", l.opts.Member, l.needed))
		}
		// Try again after the same time, but at least [Timing.Poll] later.
		l.warned, l.active = true, time.Now().Add(l.opts.Timing.Poll)
		return nil
	}
	l.closing = true
	l.proc.CloseInput()
	l.late = time.After(l.grace.EOF)
	l.set(func(s *Status) { s.Reason = "it is idle and is being ended" })
	l.at(closing)
	return nil
}

// dependents returns why other agents need this one to stay alive; empty if none do.
func (l *loop) dependents(c *teams.Config) (string, error) {
	if l.Scheduled {
		return "it has scheduled work, which would not be done", nil
	}
	if lead, _ := c.Lead(); lead.Name != l.opts.Member {
		return "", nil
	}
	var names []string
	for _, m := range c.Members {
		if m.Name == l.opts.Member || m.Guest() || !m.JoinedAt.After(l.started) {
			continue
		}
		relayed, err := Running(l.opts.State, l.opts.Team, m.Name)
		if err != nil {
			return "", err
		}
		if !relayed {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	return "its team would lose " + strings.Join(names, ", "), nil
}

// terminate ends an agent that did not exit when its stdin was closed. Its turn may finish first.
func (l *loop) terminate() {
	if l.late = nil; l.turn {
		l.late = time.After(l.grace.EOF)
		return
	}
	proc, grace := l.proc, agent.Grace{Term: l.grace.Term}
	l.reading.Go(func() { _ = proc.End(context.Background(), grace) }) // forget returns its exit error
}

// closed handles the exit of an idle agent. It never counts as a death.
func (l *loop) closed(ctx context.Context) error {
	l.at(exited)
	why := l.forget()
	if _, ok := errors.AsType[*agent.WidenedError](why); ok {
		l.opts.Warn(fmt.Errorf("relay: %s was stopped: %w", l.opts.Member, why))
	}
	return l.sleep(ctx)
}

// sleep records that no agent runs until a message waits.
func (l *loop) sleep(ctx context.Context) error {
	l.idler = idler{asleep: true}
	if err := l.session.Keep(ctx, ledger.RelayAsleep, l.slept()); err != nil {
		return err
	}
	l.set(func(s *Status) { s.State, s.Session, s.PID, s.Reason = Asleep, l.session.ID, 0, l.slept() })
	l.at(asleep)
	return nil
}

func (l *loop) slept() string {
	return reasons(fmt.Sprintf("the agent was idle for %s and was ended; the next message starts it", l.opts.IdleExit), l.session.Lost)
}

// wakes reports whether the agent must be restarted: it has exited, and something waits for it.
func (l *loop) wakes(ctx context.Context) (bool, error) {
	open, err := l.ledger.OpenCount(ctx, l.post)
	if err != nil {
		return false, err
	}
	if l.asleep && open > 0 {
		l.asleep = false
		return true, nil
	}
	l.set(func(s *Status) {
		if s.Queue = open; l.asleep {
			s.Reason = l.why(l.slept())
		}
	})
	return false, nil
}

package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/reply"
	"teambridge/relay/runtimes"
	"teambridge/teams"
)

// Limits of the pause before a relay that ended by itself is restarted.
const (
	backoffMin = time.Second
	backoffMax = time.Minute
)

// runner runs one relay of a fleet.
type runner struct {
	fleet    *Fleet
	entry    ledger.Relay
	prompter *PermissionPrompter
	stop     context.CancelFunc
	retry    chan struct{}
	poked    chan struct{} // the ledger has changed
	opening  chan struct{} // full while it opens the relay, so that its lock is already held

	mu     sync.Mutex
	relay  *relay.Relay // nil while it does not run
	status relay.Status
}

// running returns the relay while it runs, and nil otherwise.
func (m *runner) running() *relay.Relay {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.relay
}

func (m *runner) read() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Status{Relay: m.entry, Now: m.status, Questions: m.prompter.Questions()}
}

// set changes the status.
func (m *runner) set(s relay.Status) {
	m.mu.Lock()
	same := m.status == s
	m.status = s
	m.mu.Unlock()
	if !same {
		m.fleet.opts.Report(m.read())
	}
}

// run runs the relay, and restarts it when it ends.
func (m *runner) run(ctx context.Context) {
	backoff := time.Duration(0)
	for {
		began := time.Now()
		err := m.once(ctx)
		if ctx.Err() != nil {
			m.set(relay.Status{State: relay.Stopped})
			return
		}
		if time.Since(began) > backoffMax {
			backoff = 0
		}
		s := relay.Status{State: relay.Stopped, Reason: "it ended"}
		wait := m.fleet.opts.Every
		switch {
		case err == nil: // not reached: err is nil only if ctx has ended
		case errors.Is(err, relay.ErrDead):
			if s = m.read().Now; s.State != relay.Dead { // it may have died in another process
				s = relay.Status{State: relay.Dead, Reason: err.Error()}
			}
			backoff = 0
		case errors.Is(err, reply.ErrShutDown):
			s = relay.Status{State: relay.Ended, Reason: m.ended(ctx)}
			backoff = 0
		case errors.Is(err, teams.ErrTeamGone):
			s.Reason = "there is no team " + m.entry.Team
			backoff = 0
		default:
			backoff = min(max(2*backoff, backoffMin), backoffMax)
			wait = backoff
			s.Reason = err.Error()
			if errors.As(err, new(*runtimes.ProgramError)) { // for example, an update of Node.js renamed its directory
				s.Reason += "; if it was moved, install the service again from a shell that finds it: teambridge service install; or add the relay again with its path"
			}
		}
		m.set(s)
		select {
		case <-ctx.Done():
		case <-m.retry:
		case <-time.After(wait):
		}
	}
}

// ended removes an agent that was shut down from the team, and returns the reason of its shutdown.
func (m *runner) ended(ctx context.Context) (why string) {
	owner := m.fleet.owner()
	s, err := owner.session(ctx, m.entry)
	if err == nil {
		err = owner.leave(ctx, m.entry.Team, s.Inbox)
	}
	if err != nil && !errors.Is(err, teams.ErrTeamGone) && ctx.Err() == nil {
		m.fleet.opts.Warn(fmt.Errorf("%s@%s was shut down, and is still a member: %w", m.entry.Member, m.entry.Team, err))
	}
	return s.ShutDown
}

// place returns the inbox key of a member that a relay may serve, as [Member] decides.
func place(ctx context.Context, t *teams.Team, member string) (inbox.InboxKey, error) {
	name, err := Member(ctx, t, member)
	if err != nil {
		return inbox.InboxKey{}, err
	}
	return Key(ctx, t, name)
}

// enlist makes the agents of all relays of a team its members, where allowed. It comes before the start of
// the lead, so that the lead can write to them. It returns only the error of relay e; the runners of the
// others report theirs.
func (f *Fleet) enlist(ctx context.Context, e *ledger.Relay) error {
	entries, err := f.opts.Ledger.Relays.List(ctx, f.opts.Root.Path())
	for _, other := range entries {
		if other.Team != e.Team || other.OwnTeam {
			continue
		}
		s, eerr := f.owner().session(ctx, other)
		if eerr == nil && s.ShutDown == "" {
			_, eerr = f.owner().Enlist(ctx, other)
		}
		if other.ID == e.ID {
			err = errors.Join(err, eerr)
		}
	}
	return err
}

// once runs the relay in the current team until it ends.
func (m *runner) once(ctx context.Context) error {
	f, e := m.fleet, &m.entry
	if e.OwnTeam {
		// If the team belongs to another, it is served like any other.
		if _, _, err := f.owner().Acquire(ctx, e.Team, teams.LeadName(e.Member), "", e.Dir); err != nil {
			return err
		}
	}
	t, err := f.opts.Root.Team(e.Team)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := f.enlist(ctx, e); err != nil {
		return err
	}
	if s, err := f.owner().session(ctx, *e); err != nil {
		return err
	} else if s.ShutDown != "" {
		return fmt.Errorf("%w: %s", reply.ErrShutDown, s.ShutDown)
	}
	key, err := place(ctx, t, e.Member)
	if err != nil {
		return err
	}
	// The relay may have died in an earlier process.
	if s, found, err := f.opts.Ledger.Sessions.Session(ctx, key); err != nil {
		return err
	} else if found && s.Dead != "" {
		return fmt.Errorf("%w: %s", relay.ErrDead, s.Dead)
	}
	opts := relay.Options{
		Team: t, Locker: f.opts.Locker, Ledger: f.opts.Ledger, State: f.opts.State, Timing: f.opts.Timing,
		Journal: f.opts.Journal, Envelope: f.opts.Envelope,
		Events: func(ev agent.Event) { f.opts.Events(e.ID, ev) }, Report: m.set, Recorded: f.opts.Recorded,
		Warn: func(err error) { f.opts.Warn(fmt.Errorf("%s@%s: %w", key.Inbox, e.Team, err)) },
	}
	if f.opts.Poked {
		opts.Poked = m.poked
	}
	if err := f.prepare(ctx, &opts, runtimes.Launch{Settings: *e, Env: f.opts.Env}, m.prompter); err != nil {
		return err
	}
	m.opening <- struct{}{}
	r, err := reply.New(ctx, opts)
	if err == nil {
		m.mu.Lock()
		m.relay = r.Relay
		m.mu.Unlock()
	}
	<-m.opening
	if err != nil {
		return err
	}
	defer func() {
		m.mu.Lock()
		m.relay = nil
		m.mu.Unlock()
	}()
	return r.Run(ctx)
}

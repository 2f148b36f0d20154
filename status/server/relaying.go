package server

import (
	"context"
	"fmt"

	"teambridge/inbox/replicate"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// openReplicator makes the replicator, by which the journal gets what relays do and
// what is sent without the service.
func (s *Server) openReplicator() {
	s.replicator = replicate.New(replicate.Options{
		Ledger: s.ledger, Journal: s.reads, Copied: s.news.tell,
		Warn: func(err error) { s.log.Warn("recording", "err", view.Describe(err)) },
	})
}

// openRelays makes what runs relays.
func (s *Server) openRelays() {
	s.fleet = fleet.New(fleet.Options{
		Root: s.opts.Root, Ledger: s.ledger, Locker: s.locker, State: s.opts.State, Env: s.opts.Env, Every: s.limits.tick, Timing: s.timing,
		Recorded: s.replicator.Poke,
		Report:   s.relayed,
		Warn:     func(err error) { s.log.Warn("relaying", "err", view.Describe(err)) },
	})
}

// relayed is told how a relay stands.
func (s *Server) relayed(r fleet.Status) {
	log := s.log.Info
	switch r.Now.State {
	case relay.Idle, relay.Working, relay.Starting:
		log = s.log.Debug // with each message
	case relay.Dead:
		log = s.log.Warn
	}
	log("a relay", "relay", r.ID, "team", r.Team, "member", r.Member, "state", r.Now.State, "reason", r.Now.Reason, "pid", r.Now.PID)
	s.statuses.look()
}

// relaysOf tells how the relays of a team's members stand, as [view.Relays] does, and
// why those that this service is told to run do not.
func (s *Server) relaysOf(ctx context.Context, t *teams.Team) (map[string]*api.Relay, error) {
	known, err := view.Relays(ctx, s.ledger, s.opts.State, t)
	if err != nil || s.fleet == nil {
		return known, err
	}
	told, err := s.ledger.Relays(ctx, s.opts.Root.Path())
	if err != nil {
		return nil, err
	}
	for _, r := range told {
		f, err := s.fleet.Status(r.ID)
		if err != nil || r.Team != t.Name() {
			continue
		}
		name := s.opts.Root.MemberName(ctx, f.Team, f.Member)
		r := known[name]
		if r == nil {
			r = &api.Relay{}
			known[name] = r
		}
		if !r.Running && f.Now.State != "" {
			r.State, r.Reason = string(f.Now.State), f.Now.Reason
		}
	}
	return known, nil
}

// startRelays runs the relays until ctx ends, or running does. fail is told what
// keeps them from running. landed ends them and waits until their agents have
// ended, which may finish their turns.
func (s *Server) startRelays(ctx, running context.Context, fail func(error)) (landed func()) {
	on, end := context.WithCancel(running)
	// At once, and not when the requests are answered: agents take longer.
	forget := context.AfterFunc(ctx, end)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.fleet.Run(on); err != nil {
			fail(fmt.Errorf("server: relays: %w", err))
		}
	}()
	return func() {
		forget()
		end()
		<-done
	}
}

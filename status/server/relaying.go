package server

import (
	"context"
	"sync"

	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// relayed logs the state of a relay.
func (s *Server) relayed(r fleet.Status) {
	log := s.log.Info
	switch r.Now.State {
	case relay.Idle, relay.Working, relay.Starting:
		log = s.log.Debug // they change with each message
	case relay.Dead:
		log = s.log.Warn
	}
	log("a relay", "relay", r.ID, "team", r.Team, "member", r.Member, "state", r.Now.State, "reason", r.Now.Reason, "pid", r.Now.PID)
	s.statuses.relayed(r.Team)
}

// relaysOf returns the relays of a team's members as [view.Relays] does, why those of this
// service do not run, and the oldest open question of each member.
func (s *Server) relaysOf(ctx context.Context, t *teams.Team) (known map[string]*api.Relay, asked map[string]*api.Question, err error) {
	known, err = view.Relays(ctx, s.ledger, s.opts.State, t)
	if err != nil || s.fleet == nil {
		return known, nil, err
	}
	asked = map[string]*api.Question{}
	told, err := s.ledger.Relays(ctx, s.opts.Root.Path())
	for _, r := range told {
		if r.Team != t.Name() {
			continue
		}
		if f, err := s.fleet.Status(r.ID); err == nil {
			name := s.opts.Root.MemberName(ctx, f.Team, f.Member)
			if known[name] == nil {
				known[name] = &api.Relay{}
			}
			addReason(known[name], f)
			if len(f.Questions) > 0 {
				asked[name] = new(api.Question(f.Questions[0]))
			}
		}
	}
	return known, asked, err
}

// addReason adds to a relay of the service why it does not run.
func addReason(r *api.Relay, f fleet.Status) {
	if !r.Running && f.Now.State != "" {
		r.State, r.Reason = string(f.Now.State), f.Now.Reason
	}
}

// startRelays runs the relays and the queues of panes until ctx or running ends. end stops
// them and waits for their agents, which may finish their turns, and for deliveries to panes
// that have begun.
func (s *Server) startRelays(ctx, running context.Context, part func(string, func(context.Context) error)) (end func()) {
	on, stop := context.WithCancel(running)
	// As soon as ctx ends, not after the last request: agents take longer.
	forget := context.AfterFunc(ctx, stop)
	var all sync.WaitGroup
	for name, run := range map[string]func(context.Context) error{"relays": s.fleet.Run, "panes": s.panes.Run} {
		all.Add(1)
		part(name, func(context.Context) error {
			defer all.Done()
			return run(on)
		})
	}
	return func() {
		forget()
		stop()
		all.Wait()
	}
}

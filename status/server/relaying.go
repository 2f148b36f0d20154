package server

import (
	"context"
	"sync"

	"teambridge/relay"
	"teambridge/relay/fleet"
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
	s.statuses.Relayed(r.Team)
	signal(s.dirty)
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

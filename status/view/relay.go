package view

import (
	"context"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/status/api"
	"teambridge/teams"
)

// Relays returns the state of the relays of a team by member. It has the members with a
// relay, and those that had one and cannot be reached without it. state is our state
// directory.
func Relays(ctx context.Context, l *ledger.Ledger, state string, t *teams.Team) (map[string]*api.Relay, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]*api.Relay{}
	for _, m := range c.Members {
		o, found, err := relay.Stat(ctx, l, state, t, c, m.Name)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		f, err := relay.Facts(ctx, l, state, t, c, m.Name)
		if err != nil {
			return nil, err
		}
		if f.Headless || o.Queue > 0 {
			known[m.Name] = Relay(o)
		}
	}
	return known, nil
}

// WithRelays adds the state of their relays to statuses.
func WithRelays(list []api.Status, relays map[string]*api.Relay) {
	for i := range list {
		list[i].Relay = relays[list[i].Member]
	}
}

// Relay shows the state of a relay.
func Relay(o relay.Info) *api.Relay {
	r := &api.Relay{
		State: string(o.State), Running: o.Running, Queue: o.Queue, DeadLetters: o.Failed,
		PID: o.Relay, AgentPID: o.PID, Session: o.Session, Reason: o.Reason,
	}
	for _, h := range o.Held {
		r.Held = append(r.Held, hold(h))
		if r.Reason == "" {
			r.Reason = "messages are held: " + h.Reason
		}
	}
	if !o.LastAck.IsZero() {
		at := o.LastAck.UTC()
		r.LastAck = &at
	}
	return r
}

// hold shows a hold of the ledger.
func hold(h ledger.Hold) api.Hold {
	return api.Hold{Team: h.Team, Member: h.Inbox, Sender: h.Sender, Reason: h.Reason, Since: h.Since}
}

// Release releases the messages of one sender that are held back from a member, or
// those of all senders if sender is "". It returns what was held.
func Release(ctx context.Context, l *ledger.Ledger, p ledger.InboxKey, sender string) ([]api.Hold, error) {
	senders := []string{sender}
	if sender == "" {
		held, err := l.Held(ctx, p)
		if err != nil {
			return nil, err
		}
		senders = nil
		for _, h := range held {
			senders = append(senders, h.Sender)
		}
	}
	list := []api.Hold{}
	for _, s := range senders {
		released, err := l.Release(ctx, p, s)
		if err != nil {
			return nil, err
		}
		for _, h := range released {
			list = append(list, hold(h))
		}
	}
	return list, nil
}

package view

import (
	"context"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/status/api"
	"teambridge/teams"
)

// Relays tells how the relay of each member of a team stands, of those that have
// one, or had one and are not reached any more. state is our state directory.
func Relays(ctx context.Context, l *ledger.Ledger, state string, t *teams.Team) (map[string]*api.Relay, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]*api.Relay{}
	for _, m := range c.Members {
		o, found, err := relay.Look(ctx, l, state, t, c, m.Name)
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

// WithRelays adds to statuses how the relays of their members stand.
func WithRelays(list []api.Status, relays map[string]*api.Relay) {
	for i := range list {
		list[i].Relay = relays[list[i].Member]
	}
}

// Relay shows the state of a relay.
func Relay(o relay.Outlook) *api.Relay {
	r := &api.Relay{
		State: string(o.State), Running: o.Running, Queue: o.Queue, DeadLetters: o.Failed,
		PID: o.Relay, AgentPID: o.PID, Session: o.Session, Reason: o.Reason,
	}
	for _, h := range o.Held {
		r.Held = append(r.Held, Hold(h))
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

// Hold shows a hold of the ledger.
func Hold(h ledger.Hold) api.Hold {
	return api.Hold{Team: h.Team, Member: h.Inbox, Sender: h.Sender, Reason: h.Reason, Since: h.Since}
}

// Release releases what is held for the relay of a member, of one sender, or of all if
// sender is "". It returns what was held, none if nothing was.
func Release(ctx context.Context, l *ledger.Ledger, p ledger.Post, sender string) ([]api.Hold, error) {
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
			list = append(list, Hold(h))
		}
	}
	return list, nil
}

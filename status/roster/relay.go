package roster

import (
	"context"

	"teambridge/inbox/journal"
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
			known[m.Name] = RelayOf(o)
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

// RelayOf is how a relay looks from outside.
func RelayOf(o relay.Outlook) *api.Relay {
	r := &api.Relay{
		State: string(o.State), Running: o.Running, Queue: o.Queue, DeadLetters: o.Failed,
		PID: o.Relay, AgentPID: o.PID, Session: o.Session, Reason: o.Reason,
	}
	for _, h := range o.Held {
		r.Held = append(r.Held, HoldOf(h))
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

// HoldOf is a hold of the ledger.
func HoldOf(h ledger.Hold) api.Hold {
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
			list = append(list, HoldOf(h))
		}
	}
	return list, nil
}

// Fates tells what became of recorded messages, rows and a person's words, nil of
// those that were not relayed.
func Fates(ctx context.Context, l *ledger.Ledger, found []journal.Message) ([]*api.Fate, error) {
	list := make([]*api.Fate, len(found))
	for i, m := range found {
		if m.Answer != "" {
			continue
		}
		if m.Said != "" {
			said, err := l.Deliveries(ctx, ledger.DeliveryQuery{UUID: m.Said})
			if err != nil {
				return nil, err
			}
			if len(said) > 0 {
				list[i] = api.FateOf(said[0])
			}
			continue
		}
		d, ok, err := l.Fate(ctx, api.PostOf(m), m.Key(), m.Occurrence)
		if err != nil {
			return nil, err
		}
		if ok {
			list[i] = api.FateOf(d)
		}
	}
	return list, nil
}

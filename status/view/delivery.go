package view

import (
	"context"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
)

// Delivery converts a delivery of the ledger.
func Delivery(d ledger.Delivery) api.Delivery {
	return api.Delivery{
		Delivery: d.UUID, Team: d.Team, Member: d.Inbox, ID: d.ID, From: d.From, Kind: d.Kind,
		State: string(d.State), Reason: d.Reason, At: d.At, Person: d.Person,
	}
}

// RelayEvent converts an event of a relay.
func RelayEvent(r journal.RelayEvent) api.RelayEvent {
	return api.RelayEvent{
		Seq: r.Seq, Team: r.Team, CreatedAt: r.CreatedAt, Member: r.Inbox, At: r.At, State: r.State, Reason: r.Reason,
		Delivery: r.Delivery, ID: r.ID, From: r.From, Person: r.Person, AgentPID: r.PID, Session: r.Session,
	}
}

// Fates returns what became of each message, whether a row of an inbox or a prompt. It is nil for messages that were
// not relayed.
func Fates(ctx context.Context, l *ledger.Ledger, found []journal.Record) ([]*api.Fate, error) {
	list := make([]*api.Fate, len(found))
	for i, m := range found {
		var d ledger.Delivery
		var err error
		switch {
		case m.Answer != "":
			continue
		case m.Prompt != "":
			if out, found, err := l.Outbox.Outgoing(ctx, m.Prompt); err != nil {
				return nil, err
			} else if found {
				list[i] = &api.Fate{Delivery: out.UUID, State: string(out.Stage), Reason: out.Reason, At: out.StageAt, Machine: out.Machine}
				continue
			}
			typed, found, err := l.PaneMessages.Message(ctx, m.Prompt)
			if err != nil {
				return nil, err
			}
			if found {
				list[i] = paneFate(typed)
				continue
			}
			prompts, err := l.Deliveries.List(ctx, ledger.DeliveryQuery{UUID: m.Prompt})
			if err != nil {
				return nil, err
			}
			if len(prompts) > 0 {
				d = prompts[0]
			}
		default:
			d, _, err = l.Deliveries.Of(ctx, m.InboxKey, m.Key(), m.Occurrence)
		}
		if err != nil {
			return nil, err
		}
		if d.UUID != "" {
			list[i] = &api.Fate{Delivery: d.UUID, State: string(d.State), Reason: d.Reason, At: d.At}
		}
	}
	return list, nil
}

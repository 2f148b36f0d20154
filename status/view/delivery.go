package view

import (
	"context"
	"strings"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
)

// Delivery converts a delivery of the ledger.
func Delivery(d ledger.Delivery) api.Delivery {
	elsewhere := strings.Contains(d.Team, "@")
	return api.Delivery{
		Delivery: d.UUID, Team: d.Team, Member: d.Inbox, ID: d.ID, From: d.From, Kind: d.Kind,
		State: string(d.State), Reason: d.Reason, At: d.At, Person: d.Person,
		Outcome: outcome(string(d.State), d.Reason, !elsewhere),
	}
}

// RelayEvent converts an event of a relay, or of a message to a pane or session.
func RelayEvent(r journal.RelayEvent, pane bool) api.RelayEvent {
	e := api.RelayEvent{
		Seq: r.Seq, Team: r.Team, CreatedAt: r.CreatedAt, Member: r.Inbox, At: r.At, State: r.State, Reason: r.Reason,
		Delivery: r.Delivery, ID: r.ID, From: r.From, Person: r.Person, Pane: pane, AgentPID: r.PID, Session: r.Session,
	}
	if e.Delivery != "" {
		e.Outcome = outcome(e.State, e.Reason, !pane && !strings.Contains(e.Team, "@"))
	}
	return e
}

// Fates returns the outcome of each message, which is a row of an inbox or a prompt. The outcome is nil for messages
// that were not relayed.
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
				list[i] = &api.Fate{
					Delivery: out.UUID, State: string(out.Stage), Reason: out.Reason, At: out.StageAt, Machine: out.Machine,
					Outcome: outcome(string(out.Stage), out.Reason, false),
				}
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
			list[i] = &api.Fate{Delivery: d.UUID, State: string(d.State), Reason: d.Reason, At: d.At, Outcome: outcome(string(d.State), d.Reason, true)}
		}
	}
	return list, nil
}

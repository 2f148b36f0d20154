package journal

import (
	"context"
	"iter"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// RelayEvents are the changes of relays and deliveries. The table is relay_events.
type RelayEvents struct{ *database }

// A RelayEvent is a change of a message on its way to a headless agent, or of the relay
// that brings it there.
type RelayEvent struct {
	inbox.InboxKey
	Seq int64     // its number in the journal
	At  time.Time // when it happened, in UTC, to the microsecond

	// Of a message; empty in an event of the relay.
	Delivery string // uuid
	ID       string // of the message, or the delivery of a user prompt without an id
	From     string
	Person   bool // a user prompt, with a person's authority

	// Of a message: claimed, written, accepted, cut, done, cancelled, failed,
	// dropped, taken_by_agent, skipped; to a pane also held, given, finished; to another machine also consumed, seen. Of a relay: waiting, running, asleep, backing off,
	// dead, ended; running again when the agent got another process or session.
	State  string
	Reason string

	// Of a relay: the agent's process, 0 while there is none, and session.
	PID     int
	Session string

	N int64 // its number in the ledger
}

const relayedColumns = `seq, root, team, created_at, inbox, at, delivery, id, sender, person, state, reason, pid, session, n FROM relay_events`

func scanRelayed(v sqlite.Row) RelayEvent {
	return RelayEvent{
		InboxKey: scanKey(v, 1), Seq: v.Int(0), At: v.Time(5), Delivery: v.Text(6), ID: v.Text(7), From: v.Text(8),
		Person: v.Bool(9), State: v.Text(10), Reason: v.Text(11), PID: int(v.Int(12)), Session: v.Text(13), N: v.Int(14),
	}
}

// All yields the events that q selects, in the order of their numbers. Since and Until refer to At, and ID and From
// to the message.
func (j RelayEvents) All(ctx context.Context, q Query) iter.Seq2[RelayEvent, error] {
	return pages(q, func(e *RelayEvent) int64 { return e.Seq }, nil, func(q Query, limit int) ([]RelayEvent, error) {
		where := q.inboxes()
		q.records(&where, "", "at")
		return sqlite.Select(ctx, j.db, "relay events", scanRelayed,
			"SELECT "+relayedColumns+" WHERE "+where.String()+" ORDER BY seq "+q.order()+" LIMIT ?+0", where.limited(limit)...)
	})
}

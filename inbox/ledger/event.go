package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// An Event is one thing that happened to a message that was sent, to a delivery or to
// a relay, or what an agent answered. It is in the ledger by the same commit as what it tells of, but for that of a
// message that was sent: see [Ledger.Announce].
type Event struct {
	N     int64  // increasing; used once within its epoch
	Epoch string // [Epoch.ID]
	InboxKey
	At time.Time // when; kept to the microsecond, given in UTC

	// Of a delivery: itself, and the state it came to.
	Delivery string // uuid; "" if the event is about the relay
	ID       string // of the message; "" for a person's input
	From     string
	Person   bool
	State    DeliveryState

	// Of a person's input that is claimed: what was said, and how it is shown.
	// Text is empty where the delivery was pruned.
	Text, Summary, Color string

	// The row of an inbox that was claimed, as it stood there, or that was sent. It is
	// nil where the delivery was pruned.
	Row []byte

	// Of a message that was sent: whether it was written. At is when it was read back
	// or, if that is not known, when it was about to be written.
	Sent SendOutcome

	// Of what an agent answered: the frame whose turn it ended; and Row, as a row of an
	// inbox would have it, with "inReplyTo", the ids of the messages in the frame (of a
	// person's input without one, its delivery), and "truncated" if a part is left out.
	Answer string

	// Of the relay: the state it came to, or was in when it got another process
	// or session.
	Relay   RelayState
	PID     int    // of the agent; 0 while there is none
	Session string // of the agent

	Reason string
}

// SendOutcome is what is known of a message that was sent.
type SendOutcome string

const (
	SentWritten SendOutcome = "written" // it was read back from the inbox
	SentUnknown SendOutcome = "unknown" // its sender was killed, or another program replaced the file
)

// Events lists what happened after the number after, at most limit of it, in the
// order of the numbers. [Ledger.Prune] forgets events with their age.
func (l *Ledger) Events(ctx context.Context, after int64, limit int) ([]Event, error) {
	return sqlite.Select(ctx, l.db, "events", scanEvent, `SELECT
		n, (SELECT id FROM epochs WHERE first<=n ORDER BY first DESC LIMIT 1), root, team, created_at, inboxes.inbox,
		e.at, e.delivery, e.state, e.reason, e.pid, e.session,
		coalesce(d.uuid, ''), coalesce(d.id, ''), coalesce(d.sender, ''), coalesce(d.person, 0),
		coalesce(d.summary, ''), coalesce(d.color, ''),
		CASE WHEN e.state='claimed' THEN (SELECT raw FROM contents WHERE contents.seq=d.seq) END,
		e.message, m.raw, m.frame
		FROM events e CROSS JOIN inboxes USING (inbox_id) LEFT JOIN deliveries d ON d.seq=e.delivery LEFT JOIN messages m ON m.message=e.message
		WHERE n>? AND (e.delivery=0 OR d.uuid IS NOT NULL) AND (e.message=0 OR m.message IS NOT NULL) ORDER BY n LIMIT ?`, after, limit)
}

func scanEvent(v sqlite.Row) Event {
	e := Event{N: v.Int(0), Epoch: v.Text(1), InboxKey: scanKey(v, 2), At: v.Time(6), Reason: v.Text(9)}
	delivery, state, pid, session, message := v.Int(7), v.Text(8), int(v.Int(10)), v.Text(11), v.Int(19)
	switch {
	case message != 0:
		if e.Row, e.Answer = v.Blob(20), v.Text(21); e.Answer == "" {
			e.Sent = SendOutcome(state)
		} else {
			e.Session = session
		}
	case delivery == 0:
		e.Relay, e.PID, e.Session = RelayState(state), pid, session
	default:
		e.Delivery, e.State = v.Text(12), DeliveryState(state)
		e.ID, e.From, e.Person = v.Text(13), v.Text(14), v.Bool(15)
		switch {
		case e.State != Claimed:
		case e.Person:
			e.Summary, e.Color, e.Text = v.Text(16), v.Text(17), string(v.Blob(18))
		default:
			e.Row = v.Blob(18)
		}
	}
	return e
}

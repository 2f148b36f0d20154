package ledger

import (
	"context"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Events are the changes of messages and relays, in order. The table is events; triggers write most of its rows.
type Events struct{ *file }

// An Event is a change of a sent message, a delivery or a relay, or an agent's answer. The commit that makes the
// change records it, or [Sends.Announce] if the fate of a message is unknown.
type Event struct {
	// N increases. A number alone does not identify an event: numbers of events that a power cut took back, or that a
	// restored copy lacks, are used again. Number and time together identify it.
	N int64
	inbox.InboxKey
	At time.Time // kept to the microsecond, returned in UTC

	// Of a delivery: its fields, and its new state.
	Delivery string // uuid; "" if the event is about the relay
	ID       string // of the message; "" for a user prompt
	From     string
	Person   bool
	Pane     bool          // a message to a pane
	Machine  string        // the machine of the recipient; "" for this one
	State    DeliveryState // in a pane also [EventHeld] and the like; on a machine also "consumed", "seen"

	// Of a user prompt that is claimed: its text, and the summary and color for people. Text is empty if the delivery
	// was pruned.
	Text, Summary, Color string

	// The row that was sent, or claimed in an inbox; nil if the delivery was pruned.
	Row []byte

	// Of a sent message: whether it was written. At is when the message was read back or, with SentUnknown, when it
	// was about to be written.
	Sent SendOutcome

	// Of an answer: the uuid of the frame whose turn ended with it. Row is the answer as an inbox row. It has
	// "inReplyTo", the ids of the messages in the frame (the delivery of a prompt without an id), and "truncated" if
	// a part is left out.
	Answer string

	// Of the relay: its new state, or the one in which it got another process or session.
	Relay   RelayState
	PID     int    // of the agent; 0 while there is none
	Session string // of the agent

	Reason string
}

// The events of messages to panes, besides the states of their deliveries.
const (
	EventHeld     DeliveryState = "held"     // it waits, for the Reason
	EventGiven    DeliveryState = "given"    // the agent was given it: [TaskGiven]
	EventFinished DeliveryState = "finished" // the end of its task was seen
)

// SendOutcome is the known result of sending a message.
type SendOutcome string

const (
	SentWritten SendOutcome = "written" // it was read back from the inbox
	SentUnknown SendOutcome = "unknown" // its sender was killed, or another program replaced the file
)

// After returns at most limit events with numbers higher than after, in their order.
// [Ledger.Prune] forgets old events.
func (l Events) After(ctx context.Context, after int64, limit int) ([]Event, error) {
	return sqlite.Select(ctx, l.db, "events", scanEvent, `SELECT
		n, root, team, created_at, inboxes.inbox,
		e.at, e.delivery, e.state, e.reason, e.pid, e.session,
		coalesce(d.uuid, ''), coalesce(d.id, ''), coalesce(d.sender, ''), coalesce(d.person, 0),
		coalesce(d.summary, ''), coalesce(d.color, ''),
		CASE WHEN e.state='claimed' THEN (SELECT raw FROM contents WHERE contents.seq=d.seq) END,
		e.message, m.raw, m.frame, EXISTS (SELECT 1 FROM pane_messages WHERE seq=e.delivery),
		coalesce((SELECT machine FROM outgoing WHERE seq=e.delivery), '')
		FROM events e CROSS JOIN inboxes USING (inbox_id) LEFT JOIN deliveries d ON d.seq=e.delivery LEFT JOIN messages m ON m.message=e.message
		WHERE n>? AND (e.delivery=0 OR d.uuid IS NOT NULL) AND (e.message=0 OR m.message IS NOT NULL) ORDER BY n LIMIT ?+0`, after, limit)
}

// Last returns the number of the last event, or 0 if there was none.
func (l Events) Last(ctx context.Context) (int64, error) {
	return l.db.Number(ctx, "last event", "SELECT seq FROM sqlite_sequence WHERE name='events'")
}

func scanEvent(v sqlite.Row) Event {
	e := Event{N: v.Int(0), InboxKey: scanKey(v, 1), At: v.Time(5), Reason: v.Text(8)}
	delivery, state, pid, session, message := v.Int(6), v.Text(7), int(v.Int(9)), v.Text(10), v.Int(18)
	switch {
	case message != 0:
		if e.Row, e.Answer = v.Blob(19), v.Text(20); e.Answer == "" {
			e.Sent = SendOutcome(state)
		} else {
			e.Session = session
		}
	case delivery == 0:
		e.Relay, e.PID, e.Session = RelayState(state), pid, session
	default:
		e.Delivery, e.State = v.Text(11), DeliveryState(state)
		e.ID, e.From, e.Person, e.Pane = v.Text(12), v.Text(13), v.Bool(14), v.Bool(21)
		e.Machine = v.Text(22)
		switch {
		case e.State != Claimed:
		case e.Person:
			e.Summary, e.Color, e.Text = v.Text(15), v.Text(16), string(v.Blob(17))
		default:
			e.Row = v.Blob(17)
		}
	}
	return e
}

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
	var list []Event
	err := l.db.Do(ctx, "events", func(c *sqlite.Conn) error {
		list = nil // f runs again when the file was busy
		s, err := c.Statement(`SELECT n, (SELECT id FROM epochs WHERE first<=n ORDER BY first DESC LIMIT 1), root, team, created_at, inboxes.inbox, e.at, e.delivery, e.state, e.reason, e.pid, e.session,
			coalesce(d.uuid, ''), coalesce(d.id, ''), coalesce(d.sender, ''), coalesce(d.person, 0),
			coalesce(d.summary, ''), coalesce(d.color, ''),
			CASE WHEN e.state='claimed' THEN (SELECT raw FROM contents WHERE contents.seq=d.seq) END,
			e.message, m.raw, m.frame
			FROM events e CROSS JOIN inboxes USING (inbox_id) LEFT JOIN deliveries d ON d.seq=e.delivery LEFT JOIN messages m ON m.message=e.message
			WHERE n>? AND (e.delivery=0 OR d.uuid IS NOT NULL) AND (e.message=0 OR m.message IS NOT NULL) ORDER BY n LIMIT ?`)
		if err != nil {
			return err
		}
		return s.Query(func(v []sqlite.Value) error {
			e := Event{
				N: integer(v[0]), Epoch: text(v[1]), InboxKey: InboxKey{Root: text(v[2]), Team: text(v[3]), CreatedAt: integer(v[4]), Inbox: text(v[5])},
				At: moment(v[6]), Reason: text(v[9]),
			}
			if integer(v[19]) != 0 {
				if e.Row, e.Answer = blob(v[20]), text(v[21]); e.Answer == "" {
					e.Sent = SendOutcome(text(v[8]))
				} else {
					e.Session = text(v[11])
				}
			} else if integer(v[7]) == 0 {
				e.Relay, e.PID, e.Session = RelayState(text(v[8])), int(integer(v[10])), text(v[11])
			} else {
				e.Delivery, e.State = text(v[12]), DeliveryState(text(v[8]))
				e.ID, e.From, e.Person = text(v[13]), text(v[14]), integer(v[15]) != 0
				switch {
				case e.State != Claimed:
				case e.Person:
					e.Summary, e.Color, e.Text = text(v[16]), text(v[17]), string(blob(v[18]))
				default:
					e.Row = blob(v[18])
				}
			}
			list = append(list, e)
			return nil
		}, after, int64(limit))
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

package journal

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// A RelayEvent is a change of a message on its way to a headless agent, or of the relay
// that brings it there.
type RelayEvent struct {
	inbox.InboxKey
	Seq int64     // its number in the journal
	At  time.Time // when it happened, in UTC, to the microsecond

	// Of a message; empty if it is about the relay.
	Delivery string // uuid
	ID       string // of the message; "" for what a person typed
	From     string
	Person   bool // it was typed, with a person's authority

	// Of a message: claimed, written, accepted, cut, done, cancelled, failed,
	// dropped, taken_by_agent, skipped; to a pane also held, given, finished; to another machine also consumed, seen. Of a relay: waiting, running, asleep, backing off,
	// dead, ended; running again when the agent got another process or session.
	State  string
	Reason string

	// Of a relay: the agent's process, 0 while there is none, and session.
	PID     int
	Session string

	N int64 // its number where it was copied from: growing

	// What follows is for [Journal.CopyEvents] alone, which makes a [Message] of it.

	// Pane says that the message is typed into a terminal pane.
	Pane bool
	// Elsewhere says that the message goes to another machine.
	Elsewhere bool
	// Unproven says of a message to a pane or another machine that failed that it may have arrived.
	Unproven bool

	// Row is a row that was claimed, or a user prompt in the format of a row, with the event
	// that claims it. It is recorded once for each Delivery, unless somebody saw it in the file.
	Row []byte

	// Sent means that the event is about Row, which we put into the inbox. Either State is
	// [Verified] and At when it was read back, or State is [Unknown] and At when it was about
	// to be written. It also becomes a [Receipt].
	Sent bool

	// Answer is the uuid of the frame that Row answers, recorded once for each frame.
	Answer string
}

// CopyEvents copies the events of source with a higher N than all that were copied from it
// before, so each is recorded once. source names one sequence of numbers in which none is
// ever used again (an epoch of a ledger). events are in the order of N, and must have all
// events of source after [Journal.CopiedUpTo] up to the last of them.
//
// The same commit makes a message and a receipt of what was sent and of user prompts. A
// prompt is verified when it is claimed, consumed when the agent starts a turn with it,
// and lost when it ends before that. Every message of ours is seen when the agent starts a
// turn with it. A message to a pane is consumed when it is done, and seen when it is given. One to
// another machine is verified when it is done there. CopyEvents returns how many were new; with an error,
// *[Error] or *[ValueError], nothing was recorded.
func (j *Journal) CopyEvents(ctx context.Context, source string, events ...RelayEvent) (recorded int, err error) {
	if err := names("source", source); err != nil {
		return 0, err
	}
	for i := range events {
		if err := events[i].check(); err != nil {
			return 0, err
		}
		if i > 0 && events[i].N <= events[i-1].N {
			return 0, invalid("number", "of an event is not higher than that of the one before")
		}
	}
	err = j.db.Do(ctx, "copy events", func(c *sqlite.Conn) error {
		return j.number(c, func(n *numbers) error {
			recorded = 0 // this function runs again if the file was busy
			last, err := c.Number(copiedUpTo, source)
			if err != nil {
				return err
			}
			for i := range events {
				if events[i].N <= last {
					continue
				}
				if err := events[i].record(c, n); err != nil {
					return err
				}
				recorded++
			}
			if recorded == 0 {
				return nil
			}
			_, err = c.Exec("INSERT INTO copied (source, n) VALUES (?, ?) ON CONFLICT DO UPDATE SET n=excluded.n",
				source, events[len(events)-1].N)
			return err
		})
	})
	return recorded, err
}

// record records one event.
func (e *RelayEvent) record(c *sqlite.Conn, n *numbers) error {
	take := claimed
	switch {
	case e.Answer != "":
		return answered(c, n, e)
	case e.Sent:
		return sent(c, n, e)
	case e.Person:
		take = prompted
	}
	if err := take(c, n, e); err != nil {
		return err
	}
	_, err := c.Exec(`INSERT INTO relay_events (seq, root, team, created_at, inbox, at, delivery, id, sender, person,
		state, reason, pid, session, n) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		append(inboxArgs(e.InboxKey, n.next()), e.At.UnixMicro(), e.Delivery, e.ID, e.From, e.Person, e.State, e.Reason, e.PID, e.Session, e.N)...)
	if err != nil {
		return err
	}
	return e.updateReceipt(c, n)
}

// updateReceipt changes the receipt of a message as the event says. That of a row changes
// only when the agent's model was given it.
func (e *RelayEvent) updateReceipt(c *sqlite.Conn, n *numbers) error {
	if e.Delivery == "" || e.ID == "" {
		return nil
	}
	if err := e.updateState(c, n); err != nil {
		return err
	}
	seen := []string{"accepted", "cut", "done"}
	if e.Pane {
		seen = []string{"given", "finished"}
	} else if e.Elsewhere {
		seen = []string{"seen"}
	}
	if slices.Contains(seen, e.State) {
		_, err := updateReceipt(c, n, inbox.SendKey{InboxKey: e.InboxKey, ID: e.ID}, shown, e.At, "", nil)
		return err
	}
	return nil
}

func (e *RelayEvent) updateState(c *sqlite.Conn, n *numbers) error {
	if !e.Person {
		return nil
	}
	var state State
	switch {
	case e.Elsewhere && (e.State == "claimed" || e.State == "accepted"):
		return nil
	case e.State == "claimed", e.Elsewhere && e.State == "done":
		state = Verified
	case e.Elsewhere && e.State == "consumed":
		state = Consumed
	case e.State == "accepted" && e.Pane:
		return nil // Enter was pressed, which proves nothing
	case e.State == "accepted", e.State == "done":
		state = Consumed
	case e.State == "failed" && e.Unproven:
		state = Unknown
	case e.State == "failed", e.State == "cancelled", e.State == "dropped":
		state = Lost
	default:
		return nil
	}
	reason := cmp.Or(e.Reason, e.State)
	if len(reason) > sqlite.MaxName {
		reason = strings.ToValidUTF8(reason[:sqlite.MaxName], "")
	}
	_, err := updateReceipt(c, n, inbox.SendKey{InboxKey: e.InboxKey, ID: e.ID}, state, e.At, reason, nil)
	return err
}

// CopiedUpTo returns the highest N that was copied from source, 0 if none was.
func (j *Journal) CopiedUpTo(ctx context.Context, source string) (n int64, err error) {
	return j.db.Number(ctx, "copied up to", copiedUpTo, source)
}

const copiedUpTo = "SELECT coalesce(max(n), 0) FROM copied WHERE source=?"

func (e *RelayEvent) check() error {
	list := []string{"root", e.Root, "team", e.Team, "inbox", e.Inbox, "state", e.State}
	if e.Answer != "" {
		list = list[:6]
	}
	if err := names(list...); err != nil {
		return err
	}
	if e.At.IsZero() {
		return invalid("time", "of an event is missing")
	}
	switch {
	case e.Answer != "":
		if len(e.Row) == 0 {
			return invalid("row", "of an answer is missing")
		}
	case e.Sent:
		if len(e.Row) == 0 || e.State != string(Verified) && e.State != string(Unknown) {
			return invalid("row", "or state of a message that was sent is missing")
		}
	case len(e.Row) > 0 && e.Delivery == "":
		return invalid("row", "of an event about a relay")
	}
	return nil
}

const relayedColumns = `seq, root, team, created_at, inbox, at, delivery, id, sender, person, state, reason, pid, session, n FROM relay_events`

func scanRelayed(v sqlite.Row) RelayEvent {
	return RelayEvent{
		InboxKey: scanKey(v, 1), Seq: v.Int(0), At: v.Time(5), Delivery: v.Text(6), ID: v.Text(7), From: v.Text(8),
		Person: v.Bool(9), State: v.Text(10), Reason: v.Text(11), PID: int(v.Int(12)), Session: v.Text(13), N: v.Int(14),
	}
}

// RelayEvents yields the events that q selects, in the order of their numbers. Since and
// Until refer to At, ID and From to the message.
func (j *Journal) RelayEvents(ctx context.Context, q Query) iter.Seq2[RelayEvent, error] {
	return pages(q, func(e *RelayEvent) int64 { return e.Seq }, nil, func(q Query, limit int) ([]RelayEvent, error) {
		where := q.inboxes()
		q.records(&where, "", "at")
		return sqlite.Select(ctx, j.db, "relay events", scanRelayed,
			"SELECT "+relayedColumns+" WHERE "+where.String()+" ORDER BY seq "+q.order()+" LIMIT ?", where.limited(limit)...)
	})
}

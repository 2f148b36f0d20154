package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/sqlite"
)

// copyPage is the largest number of events that one commit copies.
const copyPage = 200

// Copy copies the events of a ledger that the journal does not have yet, and returns how many changed it. Then it
// looks at the inboxes of sent messages ([Journal.Look]). Errors come from the ledger and the journal.
func (j *Journal) Copy(ctx context.Context, l *ledger.Ledger) (copied int, err error) {
	return j.copyAll(ctx, l, new(string))
}

func (j *Journal) copyAll(ctx context.Context, l *ledger.Ledger, version *string) (copied int, err error) {
	if copied, err = j.copySaid(ctx, l, version); err != nil {
		return copied, err
	}
	if err := l.Sends.Announce(ctx); err != nil {
		return copied, err
	}
	var boxes []inbox.InboxKey // to which a message was sent
	for {
		at, err := j.RelayEvents.Copied(ctx)
		if err != nil {
			return copied, err
		}
		events, err := follow(ctx, l, at)
		if err != nil {
			return copied, err
		}
		if len(events) == 0 {
			return copied, j.Look(ctx, boxes...)
		}
		for _, e := range events {
			if e.Sent != "" && !slices.Contains(boxes, e.InboxKey) {
				boxes = append(boxes, e.InboxKey)
			}
		}
		n, err := j.RelayEvents.CopyEvents(ctx, &at, events...)
		if copied += n; err != nil {
			return copied, err
		}
	}
}

// follow returns the next events of a ledger: those after a position. If the ledger has another event there, or ends
// earlier, it was replaced or has lost its end; then all its events follow.
func follow(ctx context.Context, l *ledger.Ledger, at Copied) ([]ledger.Event, error) {
	events, err := l.Events.After(ctx, at.N-1, copyPage)
	switch {
	case err != nil || at.N == 0:
		return events, err
	case len(events) == 0:
		if last, err := l.Events.Last(ctx); err != nil || last >= at.N {
			return nil, err
		}
	case events[0].N > at.N: // the event at the position was pruned
		return events, nil
	case events[0].At.Equal(at.At):
		return events[1:], nil
	}
	return l.Events.After(ctx, 0, copyPage)
}

// copySaid observes the person's inboxes in the ledger, unless their version is the one that was observed last.
func (j *Journal) copySaid(ctx context.Context, l *ledger.Ledger, version *string) (changes int, err error) {
	now, err := l.Person.SaidVersion(ctx)
	if err != nil || now == *version {
		return 0, err
	}
	at, again := time.Now(), false
	list, err := l.Person.Said(ctx, "")
	if err != nil {
		return 0, err
	}
	for len(list) > 0 {
		k := list[0].Key
		n := slices.IndexFunc(list, func(s ledger.Said) bool { return s.Key != k })
		if n < 0 {
			n = len(list)
		}
		rows := make([]inbox.Row, 0, n)
		for _, s := range list[:n] {
			row, err := inbox.ParseRow(s.Raw)
			if err != nil {
				return changes, err
			}
			row.Read = s.Read
			rows = append(rows, row)
		}
		o, err := j.Messages.Observe(ctx, Snapshot{InboxKey: k, Rows: rows, At: at, Done: time.Now()})
		if changes += len(o.Changes); err != nil {
			return changes, err
		}
		again = again || len(o.Again) > 0
		list = list[n:]
	}
	if !again { // else another process observed them at the same time, perhaps with fewer messages
		*version = now
	}
	return changes, nil
}

// Copied is the last event that was copied. A number alone does not identify it: numbers of events that a power cut took back,
// or that a restored copy lacks, are used again, at another time.
type Copied struct {
	N  int64
	At time.Time
}

// Copied returns how far the ledger was copied.
func (j RelayEvents) Copied(ctx context.Context) (c Copied, err error) {
	err = j.db.Do(ctx, "copied", func(conn *sqlite.Conn) (err error) {
		c, err = copied(conn)
		return err
	})
	return c, err
}

func copied(c *sqlite.Conn) (at Copied, err error) {
	err = c.Query(func(v sqlite.Row) { at = Copied{v.Int(0), v.Time(1)} }, "SELECT copied, copied_at FROM counter")
	return at, err
}

// CopyEvents copies events of a ledger, in the order of their numbers. They follow the event after; nil allows any.
// An event that the journal has already stays unchanged. If another process has copied events since after, CopyEvents
// does nothing.
//
// The same commit makes a message and a receipt of each sent message and user prompt. A prompt is verified when it is
// claimed, consumed when the agent starts a turn with it, and lost when it ends before that. Every sent message is
// seen when the agent starts a turn with it. A message to a pane is consumed when its delivery is done, and seen when
// the agent is given it. A message to another machine is verified when its delivery is done. CopyEvents returns how
// many events changed the journal. With an error, an *[Error], nothing was recorded.
func (j RelayEvents) CopyEvents(ctx context.Context, after *Copied, events ...ledger.Event) (changed int, err error) {
	err = j.db.Do(ctx, "copy events", func(c *sqlite.Conn) error {
		return j.number(c, func(n *numbers) error {
			changed = 0 // this function runs again if the file was busy
			if after != nil {
				if now, err := copied(c); err != nil || now != *after {
					return err
				}
			}
			for i := range events {
				before := n.last
				if err := copyEvent(c, n, &events[i], j.now()); err != nil {
					return err
				}
				if n.last > before {
					changed++
				}
			}
			if after == nil || len(events) == 0 {
				return nil
			}
			last := &events[len(events)-1]
			_, err := c.Exec("UPDATE counter SET copied=?, copied_at=?", last.N, last.At.UnixMicro())
			return err
		})
	})
	return changed, err
}

// copyEvent records one event. now is the present time.
func copyEvent(c *sqlite.Conn, n *numbers, e *ledger.Event, now time.Time) error {
	switch {
	case e.Answer != "":
		return unfiled(c, n, e, e.Row, "answer", e.Answer)
	case e.Sent != "":
		m, err := stood(c, n, e, e.Sent == ledger.SentWritten, now)
		if err != nil {
			return err
		}
		state, reason := inbox.Unconsumed, ""
		if e.Sent == ledger.SentUnknown {
			state, reason = inbox.Unknown, "its sender ended before it was known whether it is in the inbox"
		}
		_, err = updateReceipt(c, n, inbox.SendKey{InboxKey: e.InboxKey, ID: m.ID()}, state, e.At, reason, nil)
		return err
	}
	if known, err := c.Number("SELECT count(*) FROM relay_events WHERE at=? AND n=?", e.At.UnixMicro(), e.N); err != nil || known > 0 {
		return err
	}
	r := RelayEvent{
		InboxKey: e.InboxKey, At: e.At, Delivery: e.Delivery, ID: e.ID, From: e.From, Person: e.Person,
		State: cmp.Or(string(e.State), string(e.Relay)), Reason: e.Reason, PID: e.PID, Session: e.Session, N: e.N,
	}
	var err error
	switch {
	case e.Person:
		r.ID, r.From = cmp.Or(e.ID, e.Delivery), cmp.Or(e.From, "user")
		err = prompted(c, n, e, &r)
	case len(e.Row) > 0:
		_, err = stood(c, n, e, true, now)
	}
	if err != nil {
		return err
	}
	_, err = c.Exec(`INSERT INTO relay_events (seq, root, team, created_at, inbox, at, delivery, id, sender, person,
		state, reason, pid, session, n) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		append(inboxArgs(r.InboxKey, n.next()), r.At.UnixMicro(), r.Delivery, r.ID, r.From, r.Person, r.State, r.Reason, r.PID, r.Session, r.N)...)
	if err != nil || r.Delivery == "" || r.ID == "" {
		return err
	}
	for _, state := range progress(e) {
		reason := cmp.Or(r.Reason, r.State)
		if len(reason) > sqlite.MaxName {
			reason = strings.ToValidUTF8(reason[:sqlite.MaxName], "")
		}
		if _, err := advanceReceipt(c, n, inbox.SendKey{InboxKey: r.InboxKey, ID: r.ID}, state, r.At, reason, nil); err != nil {
			return err
		}
	}
	return nil
}

// progress returns an event's states for the receipt of its message. A row's receipt changes only when a model was
// given it.
func progress(e *ledger.Event) (states []inbox.Fate) {
	elsewhere := e.Machine != ""
	if e.Person {
		cause, _ := ledger.SplitReason(e.Reason)
		switch {
		case e.State == ledger.Claimed && !elsewhere, e.State == ledger.Done && elsewhere:
			states = append(states, inbox.Unconsumed)
		case elsewhere && e.State == "consumed", e.State == ledger.Done,
			e.State == ledger.Accepted && !e.Pane && !elsewhere: // in a pane, Enter was pressed, which proves nothing
			states = append(states, inbox.Consumed)
		case e.State == ledger.Failed && (e.Pane || elsewhere) && cause == ledger.CauseUnknown:
			states = append(states, inbox.Unknown)
		case e.State == ledger.Failed, e.State == ledger.Cancelled, e.State == ledger.Dropped:
			states = append(states, inbox.Lost)
		}
	}
	seen := []ledger.DeliveryState{ledger.Accepted, ledger.Cut, ledger.Done}
	if e.Pane {
		seen = []ledger.DeliveryState{ledger.EventGiven, ledger.EventFinished}
	} else if elsewhere {
		seen = []ledger.DeliveryState{"seen"}
	}
	if slices.Contains(seen, e.State) {
		states = append(states, shown)
	}
	return states
}

// stood records the row of e, unless the journal has an equal row of this inbox: an equal row in the file is this
// row. Different rows are equal only if they have no id; the tap records those. If the row was certainly in the file,
// and the newest look began later, the row is gone. Otherwise, and if the clock was set back since that look, the next
// look decides.
func stood(c *sqlite.Conn, n *numbers, e *ledger.Event, certain bool, now time.Time) (m Record, err error) {
	m.set(e.Row)
	box, began, ended, err := boxOf(c, e.InboxKey, e.At)
	if err != nil {
		return m, err
	}
	sum := digestOf(&m.Row)
	ever, err := occurrences(c, box, sum)
	if err != nil || ever > 0 {
		return m, err
	}
	at := e.At.UnixMicro()
	m.Seq, m.Occurrence, m.FirstSeen = n.next(), 1, e.At
	m.Row.Read = false
	if err := insert(c, box, sum, &m, &m.Row); err != nil {
		return m, err
	}
	if certain && began >= at && began <= now.UnixMicro() {
		if _, err := changed(c, n, Gone, m.Seq, "UPDATE messages SET gone_at=? WHERE seq=?", ended); err != nil {
			return m, err
		}
	}
	// The new seq shows that the views of the inbox in memory are out of date.
	_, err = c.Exec("UPDATE inboxes SET ended=?, seq=? WHERE id=?", max(ended, at), n.last, box)
	return m, err
}

// prompted records a user prompt to a headless agent as a message to its inbox. It does so once, since a failed
// delivery can be claimed again.
func prompted(c *sqlite.Conn, n *numbers, e *ledger.Event, r *RelayEvent) error {
	if e.Text == "" {
		return nil
	}
	row, err := json.Marshal(struct { // as Claude Code writes a row
		From      string `json:"from"`
		Text      string `json:"text"`
		Summary   string `json:"summary,omitempty"`
		Timestamp string `json:"timestamp"`
		Color     string `json:"color,omitempty"`
		Type      string `json:"type"`
		ID        string `json:"messageId"`
	}{r.From, e.Text, e.Summary, e.At.UTC().Format("2006-01-02T15:04:05.000Z07:00"), e.Color, "message", r.ID})
	if err != nil {
		return err
	}
	return unfiled(c, n, e, row, "prompt", e.Delivery)
}

// unfiled records a message that was never in a file: a prompt or an answer, once for each id. It leaves the view of
// the file unchanged. The message counts as gone from the start, since the next look at the file will not find it.
func unfiled(c *sqlite.Conn, n *numbers, e *ledger.Event, row []byte, kind, id string) error {
	known, err := c.Number("SELECT count(*) FROM messages WHERE "+kind+"=? AND "+kind+"<>''", id) // as in the index
	if err != nil || known > 0 {
		return err
	}
	var m Record
	m.set(row)
	box, _, _, err := boxOf(c, e.InboxKey, e.At)
	if err != nil {
		return err
	}
	sum := digestOf(&m.Row)
	ever, err := occurrences(c, box, sum)
	if err != nil {
		return err
	}
	m.Seq, m.Occurrence, m.FirstSeen, m.GoneAt = n.next(), ever+1, e.At, e.At
	if m.Answer = id; kind == "prompt" {
		m.Prompt, m.Answer = id, ""
	}
	return insert(c, box, sum, &m, &m.Row)
}

// boxOf returns the number of an inbox, which it adds if it is new, and when the newest look at its file began and
// ended. Before the first look, these times are 0, so that any look is newer.
func boxOf(c *sqlite.Conn, k inbox.InboxKey, at time.Time) (box, began, ended int64, err error) {
	if _, err := c.Exec(`INSERT INTO inboxes (root, team, created_at, inbox, first_seen, began, ended, seq)
		VALUES (?, ?, ?, ?, ?, 0, 0, 0) ON CONFLICT DO NOTHING`, append(inboxArgs(k), at.UnixMicro())...); err != nil {
		return 0, 0, 0, err
	}
	err = c.Query(func(v sqlite.Row) { box, began, ended = v.Int(0), v.Int(1), v.Int(2) },
		"SELECT id, began, ended FROM inboxes WHERE "+thisInbox, inboxArgs(k)...)
	return box, began, ended, err
}

package ledger

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Deliveries are rows and user prompts on their way to agents. The tables are deliveries, contents and pruned.
type Deliveries struct{ *file }

// A Delivery is one row of an inbox, or one user prompt, on its way to the agent.
type Delivery struct {
	UUID string // of the delivery; the row has it in relayedBy
	inbox.InboxKey
	Seq        int64  // order of claiming, set by the ledger: unique, growing, never reused
	Key        string // [inbox.Row.Key]; empty for a user prompt
	Occurrence int    // counts all rows that ever had that key, from 1; 0 for a user prompt
	ID         string // of the message
	From       string
	Kind       string
	Summary    string // of a user prompt, shown to people; the agent does not get it
	Color      string // like Summary
	Raw        []byte // the row before it was marked, or the person's text; at most 32 MiB
	Person     bool   // a user prompt, with a person's authority
	Isolated   bool   // in a frame of its own
	Mode       []byte // JSON of a mode, empty for none; at most 32 MiB
	Hops       int    // of a row: [Exchanges.Hops]
	Marked     bool   // the row was read back from the file as ours; always true for a person's
	Frame      string // uuid of its frame, "" for none yet
	State      DeliveryState
	Reason     string    // why it is in that state; may be empty
	At         time.Time // when it reached that state; kept to the microsecond, returned in UTC
}

// maxContent is the size of the largest inbox that is read, so that each of its rows fits.
const maxContent = 32 << 20

func (d *Delivery) check() error {
	err := cmp.Or(checkInbox(d.InboxKey), names("uuid", d.UUID), content("raw", d.Raw), content("mode", d.Mode))
	switch {
	case err != nil:
	case !d.Person:
		if err = names("key", d.Key); err == nil && d.Occurrence < 1 {
			err = invalid("occurrence", fmt.Sprintf("is %d; the first is 1", d.Occurrence))
		}
	case d.Key != "" || d.Occurrence != 0:
		err = invalid("key", "or occurrence is given for a user prompt, which is no row")
	}
	return err
}

func content(name string, b []byte) error {
	if len(b) > maxContent {
		return invalid(name, fmt.Sprintf("has %d bytes, over %d", len(b), maxContent))
	}
	return nil
}

// Claim records deliveries, in the given order, all or none, and sets their Seq. When it returns nil they are on the
// disk. It ignores State, Reason, Frame, Seq and Marked: a delivery begins as [Claimed], in no frame, and a row as
// not yet marked. A zero At is now.
//
// A delivery that is recorded already is not changed; Claim only sets its Seq in ds. Claim fails with [ErrConflict]
// if the uuid belongs to another row or to a prompt with another text or mode, or if the row was claimed under
// another uuid. It fails with [ErrHeld] for a new row whose sender is held, and with *[ValueError].
func (l Deliveries) Claim(ctx context.Context, ds ...Delivery) error {
	for i := range ds {
		if err := ds[i].check(); err != nil {
			return err
		}
	}
	seqs := make([]int64, len(ds))
	err := l.write(ctx, "claim", durable, func(c *sqlite.Conn) (err error) {
		for i := range ds {
			if seqs[i], err = claim(c, &ds[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, seq := range seqs {
		ds[i].Seq = seq
	}
	return nil
}

func claim(c *sqlite.Conn, d *Delivery) (seq int64, err error) {
	inboxID, err := addInbox(c, d.InboxKey)
	if err != nil {
		return 0, err
	}
	at := micros(d.At)
	n, err := c.Exec(`INSERT INTO deliveries
		(uuid, inbox_id, key, occurrence, id, sender, kind, person, isolated, marked, frame, state, reason, at, summary, color, hops, claimed_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 'claimed', '', ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		d.UUID, inboxID, d.Key, d.Occurrence, d.ID, d.From, d.Kind, d.Person, d.Isolated, d.Person, at, d.Summary, d.Color, d.Hops, at)
	if err != nil {
		return 0, err
	}
	was, found, err := delivery(c, d.UUID)
	switch {
	case err != nil:
		return 0, err
	case n > 0:
		if !d.Person {
			// Checked in this transaction, so that no row is claimed once its sender is held.
			if held, err := c.Number("SELECT count(*) FROM holds WHERE inbox_id=? AND sender=? AND held<>0", inboxID, d.From); err != nil {
				return 0, err
			} else if held > 0 {
				return 0, fmt.Errorf("ledger: claim %s in %v: %w: %s", d.UUID, d.InboxKey, ErrHeld, d.From)
			}
		}
		_, err = c.Exec("INSERT INTO contents (seq, mode, raw) VALUES (?, ?, ?)", was.Seq, d.Mode, d.Raw)
		return was.Seq, err
	case !found:
		return 0, fmt.Errorf("ledger: claim %s: occurrence %d of row %s was claimed under another uuid: %w", d.UUID, d.Occurrence, d.Key, ErrConflict)
	case was.InboxKey != d.InboxKey || was.Person != d.Person || was.Key != d.Key || was.Occurrence != d.Occurrence:
		return 0, fmt.Errorf("ledger: claim %s in %v: it stands for something in %v: %w", d.UUID, d.InboxKey, was.InboxKey, ErrConflict)
	case d.Person:
		if was, err = withContent(c, was); err != nil {
			return 0, err
		}
		if !bytes.Equal(was.Raw, d.Raw) || !bytes.Equal(was.Mode, d.Mode) || was.Isolated != d.Isolated {
			return 0, fmt.Errorf("ledger: claim %s: it has another text or mode: %w", d.UUID, ErrConflict)
		}
	}
	return was.Seq, nil
}

// Mark records that rows were read back from the file as marked by us, all or none. It fails with [ErrUnknown]. It
// does not wait for the disk: after a power cut the relay reads the file again.
func (l Deliveries) Mark(ctx context.Context, uuids ...string) error {
	return l.write(ctx, "mark", quick, func(c *sqlite.Conn) error {
		for _, uuid := range uuids {
			if n, err := c.Exec("UPDATE deliveries SET marked=1 WHERE uuid=?", uuid); err != nil {
				return err
			} else if n == 0 {
				return unknown("mark", uuid)
			}
		}
		return nil
	})
}

func unknown(op, uuid string) error {
	return fmt.Errorf("ledger: %s %s: %w: it was never there, or was pruned; list what there is", op, uuid, ErrUnknown)
}

// Marked lists the marked deliveries of rows with that message id, in the order of claiming.
func (l Deliveries) Marked(ctx context.Context, k inbox.InboxKey, id string) ([]Delivery, error) {
	return l.ofInbox(ctx, "marked", k, "id=? AND key<>'' AND marked=1 ORDER BY seq", id)
}

// WithID lists the deliveries of rows with that message id, in the order of claiming.
func (l Deliveries) WithID(ctx context.Context, k inbox.InboxKey, id string) ([]Delivery, error) {
	return l.ofInbox(ctx, "with id", k, "id=? AND person=0 ORDER BY seq", id)
}

// Unmarked lists the claimed deliveries not yet marked, in the order of claiming.
func (l Deliveries) Unmarked(ctx context.Context, k inbox.InboxKey) ([]Delivery, error) {
	return l.ofInbox(ctx, "unmarked", k, unended+" AND state='claimed' AND marked=0 ORDER BY seq")
}

// Waiting lists the deliveries of an inbox that can go into a frame: claimed,
// marked and in none. User prompts come first, each in the order of claiming. Messages to
// the inbox's pane are left out.
func (l Deliveries) Waiting(ctx context.Context, k inbox.InboxKey) ([]Delivery, error) {
	return l.ofInbox(ctx, "waiting", k, unended+` AND state='claimed' AND marked=1 AND frame=''
		AND seq NOT IN (SELECT seq FROM pane_messages)
		AND seq < coalesce((SELECT min(d.seq) FROM deliveries d JOIN sessions USING (inbox_id) WHERE d.inbox_id=inboxes.inbox_id AND answers<>0
			AND d.`+unended+` AND d.kind='`+shutdownRequest+`' AND d.person=0), seq+1) ORDER BY person DESC, seq`)
}

// ofInbox returns the deliveries of one inbox that match rest, the rest of a query.
func (l Deliveries) ofInbox(ctx context.Context, op string, k inbox.InboxKey, rest string, args ...sqlite.Value) ([]Delivery, error) {
	if err := checkInbox(k); err != nil {
		return nil, err
	}
	return l.list(ctx, op, thisInbox+" AND "+rest, append(inboxArgs(k), args...)...)
}

// DroppedUnmarked lists the uuids of deliveries, in the order of claiming, whose rows have that key and that were
// dropped before their claim was finished. A row with the key that still waits in the inbox belongs to one of them
// and must not be claimed again.
func (l Deliveries) DroppedUnmarked(ctx context.Context, k inbox.InboxKey, key string) ([]string, error) {
	return l.uuids(ctx, "dropped", k, "key=? AND key<>'' AND state='dropped' AND marked=0 ORDER BY occurrence", key)
}

// Open lists the uuids of the deliveries of an inbox that have not ended.
func (l Deliveries) Open(ctx context.Context, k inbox.InboxKey) ([]string, error) {
	return l.uuids(ctx, "open deliveries", k, unended)
}

// uuids returns the uuids of the deliveries of one inbox that match rest, the rest of a query.
func (l Deliveries) uuids(ctx context.Context, op string, k inbox.InboxKey, rest string, args ...sqlite.Value) ([]string, error) {
	if err := checkInbox(k); err != nil {
		return nil, err
	}
	return sqlite.Select(ctx, l.db, op, func(v sqlite.Row) string { return v.Text(0) },
		"SELECT uuid FROM inboxes JOIN deliveries USING (inbox_id) WHERE "+thisInbox+" AND "+rest, append(inboxArgs(k), args...)...)
}

// Missing returns the uuids that are not deliveries of the inbox, in the given order. Pruned deliveries are missing
// too, but still count in [Deliveries.Occurrences].
func (l Deliveries) Missing(ctx context.Context, k inbox.InboxKey, uuids ...string) (missing []string, err error) {
	if err := checkInbox(k); err != nil || len(uuids) == 0 {
		return nil, err
	}
	err = l.db.Do(ctx, "missing", func(c *sqlite.Conn) error {
		missing = nil // this function runs again if the file was busy
		for _, uuid := range uuids {
			if d, found, err := delivery(c, uuid); err != nil {
				return err
			} else if !found || d.InboxKey != k {
				missing = append(missing, uuid)
			}
		}
		return nil
	})
	return missing, err
}

// Occurrences returns how many rows with that key were ever claimed in an inbox: the
// highest Occurrence, including those of pruned deliveries.
func (l Deliveries) Occurrences(ctx context.Context, k inbox.InboxKey, key string) (int, error) {
	return l.count(ctx, "occurrences", k, `SELECT max(
			coalesce((SELECT max(occurrence) FROM deliveries WHERE inbox_id=i.inbox_id AND key=?1 AND key<>''), 0),
			coalesce((SELECT occurrence FROM pruned WHERE inbox_id=i.inbox_id AND key=?1), 0))
		FROM inboxes i WHERE root=?2 AND team=?3 AND created_at=?4 AND inbox=?5`, key)
}

// OpenCount returns how many deliveries of an inbox have not ended.
func (l Deliveries) OpenCount(ctx context.Context, k inbox.InboxKey) (int, error) {
	return l.count(ctx, "count", k, "SELECT count(*) FROM inboxes JOIN deliveries USING (inbox_id) WHERE "+thisInbox+" AND "+unended)
}

func (l Deliveries) count(ctx context.Context, op string, k inbox.InboxKey, query string, before ...sqlite.Value) (int, error) {
	if err := checkInbox(k); err != nil {
		return 0, err
	}
	n, err := l.db.Number(ctx, op, query, inboxArgs(k, before...)...)
	return int(n), err
}

// Of returns the delivery of a row of an inbox, and whether it has one. The row is the occurrence-th with that key,
// from 1. Raw and Mode are left out.
func (l Deliveries) Of(ctx context.Context, k inbox.InboxKey, key string, occurrence int) (d Delivery, found bool, err error) {
	if err := checkInbox(k); err != nil {
		return Delivery{}, false, err
	}
	return first(sqlite.Select(ctx, l.db, "delivery of", scanDelivery, "SELECT "+deliveryColumns+
		" FROM inboxes JOIN deliveries USING (inbox_id) WHERE "+thisInbox+" AND key=? AND occurrence=? AND key<>''", append(inboxArgs(k), key, occurrence)...))
}

// DeliveryQuery selects deliveries. An empty field selects all.
type DeliveryQuery struct {
	Root, Team string
	CreatedAt  int64
	Inbox      string
	States     []DeliveryState
	Limit      int // the largest number of deliveries; 0 for all
	UUID       string
}

// List returns deliveries, the newest (highest Seq) first.
func (l Deliveries) List(ctx context.Context, q DeliveryQuery) ([]Delivery, error) {
	var where []string
	var args []sqlite.Value
	add := func(given bool, condition string, values ...sqlite.Value) {
		if given {
			where, args = append(where, condition), append(args, values...)
		}
	}
	add(q.Root != "", "root=?", q.Root)
	add(q.Team != "", "team=?", q.Team)
	add(q.CreatedAt != 0, "created_at=?", q.CreatedAt)
	add(q.Inbox != "", "inbox=?", q.Inbox)
	add(q.UUID != "", "uuid=?", q.UUID)
	var states []sqlite.Value
	for _, s := range q.States {
		states = append(states, string(s))
	}
	add(len(states) > 0, "state IN ("+placeholders(len(states))+")", states...)
	add(true, "true ORDER BY seq DESC")
	rest := strings.Join(where, " AND ")
	if q.Limit > 0 {
		rest, args = rest+" LIMIT ?+0", append(args, q.Limit)
	}
	return l.list(ctx, "deliveries", rest, args...)
}

const deliveryColumns = `uuid, root, team, created_at, inbox, seq, key, occurrence, id, sender, kind,
	person, isolated, marked, frame, state, reason, at, summary, color, hops`

func scanDelivery(v sqlite.Row) Delivery {
	return Delivery{
		UUID: v.Text(0), InboxKey: scanKey(v, 1), Seq: v.Int(5), Key: v.Text(6), Occurrence: int(v.Int(7)),
		ID: v.Text(8), From: v.Text(9), Kind: v.Text(10), Person: v.Bool(11), Isolated: v.Bool(12), Marked: v.Bool(13),
		Frame: v.Text(14), State: DeliveryState(v.Text(15)), Reason: v.Text(16), At: v.Time(17),
		Summary: v.Text(18), Color: v.Text(19), Hops: int(v.Int(20)),
	}
}

// list returns the deliveries that match rest: the condition of a query and all that follows.
func (l Deliveries) list(ctx context.Context, op, rest string, args ...sqlite.Value) ([]Delivery, error) {
	return sqlite.Select(ctx, l.db, op, func(v sqlite.Row) Delivery {
		d := scanDelivery(v)
		d.Mode, d.Raw = v.Blob(21), v.Blob(22)
		return d
	}, "SELECT "+deliveryColumns+", mode, raw FROM inboxes JOIN deliveries USING (inbox_id) JOIN contents USING (seq) WHERE "+rest, args...)
}

// delivery returns a delivery, without Mode and Raw.
func delivery(c *sqlite.Conn, uuid string) (Delivery, bool, error) {
	return sqlite.One(c, scanDelivery, "SELECT "+deliveryColumns+" FROM deliveries JOIN inboxes USING (inbox_id) WHERE uuid=?", uuid)
}

func withContent(c *sqlite.Conn, d Delivery) (Delivery, error) {
	err := c.Query(func(v sqlite.Row) { d.Mode, d.Raw = v.Blob(0), v.Blob(1) }, "SELECT mode, raw FROM contents WHERE seq=?", d.Seq)
	return d, err
}

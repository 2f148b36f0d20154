package ledger

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"teambridge/inbox/sqlite"
)

// A Delivery is one row of an inbox, or one input of a person, on its way to
// the agent.
type Delivery struct {
	UUID string // of the delivery; what relayedBy says in the row
	InboxKey
	Seq        int64  // order of claiming, given by the ledger: unique, growing, never used again
	Key        string // [inbox.Row.Key]; empty for a person's input
	Occurrence int    // which of the rows with that key ever, from 1; 0 for a person's input
	ID         string // of the message
	From       string
	Kind       string
	Summary    string // of a person's input, for people: the agent is not told
	Color      string // the same
	Raw        []byte // the row as it stood, or the person's text; at most 32 MiB
	Person     bool   // a person's input, with a person's authority
	Isolated   bool   // in a frame of its own
	Mode       []byte // JSON of a mode, empty for none; at most 32 MiB
	Hops       int    // of a row: [Exchanges.Hops]
	Marked     bool   // the row was read back from the file as ours; always true for a person's
	Frame      string // uuid of the frame it went into, "" for none yet
	State      DeliveryState
	Reason     string    // why it is in that state, if there is more to say
	At         time.Time // when it came to that state; kept to the microsecond, given in UTC
}

// maxContent is the largest inbox that is read: what is in one must have
// room, also if it is only kept to say that it is too large for a frame.
const maxContent = 32 << 20

func (d *Delivery) check() error {
	if err := d.InboxKey.check(); err != nil {
		return err
	}
	if err := names(field{"uuid", d.UUID}); err != nil {
		return err
	}
	if err := content("raw", d.Raw); err != nil {
		return err
	}
	if err := content("mode", d.Mode); err != nil {
		return err
	}
	if d.Person {
		if d.Key != "" || d.Occurrence != 0 {
			return &ValueError{Field: "key", Reason: "or occurrence is given for a person's input, which is no row"}
		}
		return nil
	}
	if err := names(field{"key", d.Key}); err != nil {
		return err
	}
	if d.Occurrence < 1 {
		return &ValueError{Field: "occurrence", Reason: fmt.Sprintf("is %d; the first is 1", d.Occurrence)}
	}
	return nil
}

func content(name string, b []byte) error {
	if len(b) > maxContent {
		return &ValueError{Field: name, Reason: fmt.Sprintf("has %d bytes, over %d", len(b), maxContent)}
	}
	return nil
}

// Claim records deliveries, in that order, all or none, and sets their Seq.
// When it returns nil they are on the disk. State, Reason, Frame, Seq and
// Marked are not looked at: a delivery begins as [Claimed], in no frame, and a
// row as not yet marked. A zero At is now.
//
// A delivery that is there already is left as it is and only gets its Seq. It
// fails with [ErrConflict] when the uuid belongs to another row, or to another
// text or mode of a person, or when the row was claimed under another uuid, and
// with *[ValueError].
func (l *Ledger) Claim(ctx context.Context, ds ...Delivery) error {
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
	inboxID, err := d.InboxKey.add(c)
	if err != nil {
		return 0, err
	}
	insert, err := c.Statement(`INSERT INTO deliveries
		(uuid, inbox_id, key, occurrence, id, sender, kind, person, isolated, marked, frame, state, reason, at, summary, color, hops, claimed_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 'claimed', '', ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
	if err != nil {
		return 0, err
	}
	at := micros(d.At)
	n, err := insert.Exec(d.UUID, inboxID, d.Key, int64(d.Occurrence), d.ID, d.From, d.Kind,
		truth(d.Person), truth(d.Isolated), truth(d.Person), at, d.Summary, d.Color, int64(d.Hops), at)
	if err != nil {
		return 0, err
	}
	was, found, err := delivery(c, d.UUID)
	switch {
	case err != nil:
		return 0, err
	case n > 0:
		fill, err := c.Statement("INSERT INTO contents (seq, mode, raw) VALUES (?, ?, ?)")
		if err != nil {
			return 0, err
		}
		_, err = fill.Exec(was.Seq, notNil(d.Mode), notNil(d.Raw))
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
			return 0, fmt.Errorf("ledger: claim %s: it has another text or mode: %w; choose another id", d.UUID, ErrConflict)
		}
	}
	return was.Seq, nil
}

// Mark records that rows were read back from the file as ours, all or none. It
// fails with [ErrUnknown].
//
// It does not wait for the disk: after a power cut the file is asked again.
func (l *Ledger) Mark(ctx context.Context, uuids ...string) error {
	return l.write(ctx, "mark", quick, func(c *sqlite.Conn) error {
		mark, err := c.Statement("UPDATE deliveries SET marked=1 WHERE uuid=?")
		if err != nil {
			return err
		}
		for _, uuid := range uuids {
			if n, err := mark.Exec(uuid); err != nil {
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

// Marked lists the deliveries of rows with that message id whose rows were read back from
// the file as ours, in the order of claiming.
func (l *Ledger) Marked(ctx context.Context, p InboxKey, id string) ([]Delivery, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return l.deliveries(ctx, "marked", "root=? AND team=? AND created_at=? AND inbox=? AND id=? AND key<>'' AND marked=1 ORDER BY seq",
		append(p.args(), id)...)
}

// Unmarked lists the deliveries of an inbox that are claimed and not yet marked,
// in the order of claiming: those whose claim was perhaps not finished.
func (l *Ledger) Unmarked(ctx context.Context, p InboxKey) ([]Delivery, error) {
	return l.list(ctx, "unmarked", p, unended+" AND state='claimed' AND marked=0 ORDER BY seq")
}

// DroppedUnmarked lists the uuids of the deliveries of rows with that key which were
// dropped before their claim was finished, in the order of claiming: a row that
// waits in the inbox all the same is theirs, and not to be claimed anew.
func (l *Ledger) DroppedUnmarked(ctx context.Context, p InboxKey, key string) (uuids []string, err error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return l.uuids(ctx, "dropped", `key=? AND key<>'' AND state='dropped' AND marked=0 ORDER BY occurrence`, append(p.args(), key)...)
}

// Open lists the uuids of the deliveries of an inbox that have not ended.
func (l *Ledger) Open(ctx context.Context, p InboxKey) (uuids []string, err error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return l.uuids(ctx, "open deliveries", unended, p.args()...)
}

// uuids lists those of one inbox for which rest holds.
func (l *Ledger) uuids(ctx context.Context, op, rest string, args ...sqlite.Value) (uuids []string, err error) {
	err = l.db.Do(ctx, op, func(c *sqlite.Conn) error {
		uuids = nil // f runs again when the file was busy
		s, err := c.Statement(`SELECT uuid FROM inboxes JOIN deliveries USING (inbox_id)
			WHERE root=? AND team=? AND created_at=? AND inbox=? AND ` + rest)
		if err != nil {
			return err
		}
		return s.Query(func(v []sqlite.Value) error {
			uuids = append(uuids, text(v[0]))
			return nil
		}, args...)
	})
	if err != nil {
		return nil, err
	}
	return uuids, nil
}

// Missing returns those of the uuids that are no deliveries of the inbox, in
// their order. Deliveries that were pruned are missing too; [Ledger.Occurrences]
// still counts them.
func (l *Ledger) Missing(ctx context.Context, p InboxKey, uuids ...string) (missing []string, err error) {
	if err := p.check(); err != nil || len(uuids) == 0 {
		return nil, err
	}
	err = l.db.Do(ctx, "missing", func(c *sqlite.Conn) error {
		missing = nil
		for _, uuid := range uuids {
			if d, found, err := delivery(c, uuid); err != nil {
				return err
			} else if !found || d.InboxKey != p {
				missing = append(missing, uuid)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return missing, nil
}

// Waiting lists the deliveries of an inbox that can go into a frame: claimed,
// marked and in none. Persons' come first, each in the order of claiming.
func (l *Ledger) Waiting(ctx context.Context, p InboxKey) ([]Delivery, error) {
	return l.list(ctx, "waiting", p, unended+" AND state='claimed' AND marked=1 AND frame='' ORDER BY person DESC, seq")
}

// list gives the deliveries of one inbox, in the order that rest says.
func (l *Ledger) list(ctx context.Context, op string, p InboxKey, rest string) ([]Delivery, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return l.deliveries(ctx, op, "root=? AND team=? AND created_at=? AND inbox=? AND "+rest, p.args()...)
}

// Occurrences tells how many rows with that key were ever claimed in an inbox:
// the highest Occurrence, of deliveries that were pruned too.
func (l *Ledger) Occurrences(ctx context.Context, p InboxKey, key string) (int, error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	return l.count(ctx, "occurrences", `SELECT max(
			coalesce((SELECT max(occurrence) FROM deliveries WHERE inbox_id=p.inbox_id AND key=?1 AND key<>''), 0),
			coalesce((SELECT occurrence FROM pruned WHERE inbox_id=p.inbox_id AND key=?1), 0))
		FROM inboxes p WHERE root=?2 AND team=?3 AND created_at=?4 AND inbox=?5`, p.args(key)...)
}

// OpenCount tells how many deliveries of an inbox have not ended.
func (l *Ledger) OpenCount(ctx context.Context, p InboxKey) (int, error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	return l.count(ctx, "count", `SELECT count(*) FROM inboxes JOIN deliveries USING (inbox_id)
		WHERE root=? AND team=? AND created_at=? AND inbox=? AND `+unended, p.args()...)
}

func (l *Ledger) count(ctx context.Context, op, query string, args ...sqlite.Value) (n int, err error) {
	err = l.db.Do(ctx, op, func(c *sqlite.Conn) error {
		s, err := c.Statement(query)
		if err != nil {
			return err
		}
		n = 0
		return s.Query(func(v []sqlite.Value) error {
			n = int(integer(v[0]))
			return nil
		}, args...)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// DeliveryQuery says which deliveries are asked for. What is left empty does
// not restrict.
type DeliveryQuery struct {
	Root, Team string
	CreatedAt  int64
	Inbox      string
	States     []DeliveryState
	Limit      int // at most so many; 0 for all
	UUID       string
}

// Deliveries lists deliveries, newest first: by Seq, falling.
func (l *Ledger) Deliveries(ctx context.Context, q DeliveryQuery) ([]Delivery, error) {
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
		rest, args = rest+" LIMIT ?", append(args, int64(q.Limit))
	}
	return l.deliveries(ctx, "deliveries", rest, args...)
}

const deliveryColumns = `uuid, root, team, created_at, inbox, seq, key, occurrence, id, sender, kind,
	person, isolated, marked, frame, state, reason, at, summary, color, hops`

const deliveryColumnCount = 21

func scanDelivery(v []sqlite.Value) Delivery {
	return Delivery{
		UUID:     text(v[0]),
		InboxKey: InboxKey{Root: text(v[1]), Team: text(v[2]), CreatedAt: integer(v[3]), Inbox: text(v[4])},
		Seq:      integer(v[5]), Key: text(v[6]), Occurrence: int(integer(v[7])),
		ID: text(v[8]), From: text(v[9]), Kind: text(v[10]),
		Person: integer(v[11]) != 0, Isolated: integer(v[12]) != 0, Marked: integer(v[13]) != 0,
		Frame: text(v[14]), State: DeliveryState(text(v[15])), Reason: text(v[16]), At: moment(v[17]),
		Summary: text(v[18]), Color: text(v[19]), Hops: int(integer(v[20])),
	}
}

// deliveries gives those for which the rest of a query, from its condition on,
// holds.
func (l *Ledger) deliveries(ctx context.Context, op, rest string, args ...sqlite.Value) ([]Delivery, error) {
	var list []Delivery
	err := l.db.Do(ctx, op, func(c *sqlite.Conn) error {
		list = nil // f runs again when the file was busy
		s, err := c.Statement(`SELECT ` + deliveryColumns + `, mode, raw
			FROM inboxes JOIN deliveries USING (inbox_id) JOIN contents USING (seq) WHERE ` + rest)
		if err != nil {
			return err
		}
		return s.Query(func(v []sqlite.Value) error {
			d := scanDelivery(v)
			d.Mode, d.Raw = blob(v[deliveryColumnCount]), blob(v[deliveryColumnCount+1])
			list = append(list, d)
			return nil
		}, args...)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// delivery gives one, without Mode and Raw.
func delivery(c *sqlite.Conn, uuid string) (d Delivery, found bool, err error) {
	s, err := c.Statement("SELECT " + deliveryColumns + " FROM deliveries JOIN inboxes USING (inbox_id) WHERE uuid=?")
	if err != nil {
		return Delivery{}, false, err
	}
	err = s.Query(func(v []sqlite.Value) error {
		d, found = scanDelivery(v), true
		return nil
	}, uuid)
	return d, found, err
}

func withContent(c *sqlite.Conn, d Delivery) (Delivery, error) {
	err := c.Query(func(v []sqlite.Value) error {
		d.Mode, d.Raw = blob(v[0]), blob(v[1])
		return nil
	}, "SELECT mode, raw FROM contents WHERE seq=?", d.Seq)
	return d, err
}

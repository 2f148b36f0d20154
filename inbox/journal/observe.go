package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// A Snapshot is the content of one inbox file at one time.
type Snapshot struct {
	inbox.InboxKey             // Inbox may be empty with Gone: all inboxes of the team
	Rows           []inbox.Row // all rows of the file, in order, from an [inbox.Inbox.Read] without error

	// Gone means that the file or the team no longer exists. Rows is ignored.
	Gone bool

	// At is when reading began, just before the file was opened, and Done when it had ended, both by the clock of the
	// machine. A zero Done means At, which is right only if no other process observes this inbox.
	At, Done time.Time
}

// SnapshotOf returns a reading of the inbox of key as a snapshot. A sender observes the inbox as it was read back
// under the lock and, before it reports that the message is gone, the snapshot that shows this. So the journal has
// one record of the message, with its end.
func SnapshotOf(key inbox.SendKey, seen *inbox.Seen) Snapshot {
	return Snapshot{InboxKey: key.InboxKey, Rows: seen.Rows, At: seen.At, Done: seen.Done}
}

// Kind is the kind of a change.
type Kind string

const (
	Appeared Kind = "appeared" // a row was seen for the first time
	Read     Kind = "read"     // a row was seen to be read
	Gone     Kind = "gone"     // a row was seen to be gone from the file
	// Receipted: the receipt of a sent message changed.
	Receipted Kind = "receipt"
	// Relaying: a relay or one of its deliveries changed its state.
	Relaying Kind = "relay"
	// Said: an envelope of an agent was recorded.
	Said Kind = "envelope"
)

// A Change is one change, with a number of its own.
type Change struct {
	Seq        int64
	Epoch      string // of Seq, see [Position]; set only by [Messages.Changes]
	Kind       Kind
	Message    Record     // its present record, with Appeared, Read and Gone; else zero
	Receipt    Receipt    // with Receipted, else zero
	RelayEvent RelayEvent // with Relaying, else zero
	Envelope   Envelope   // with Said, else zero
}

// An Observation is the result of [Messages.Observe].
type Observation struct {
	Changes []Change // in the order of their numbers

	// Again has the index of each snapshot that may be older than one that another process has recorded meanwhile.
	// Only the new rows of such a snapshot are recorded: read and observe the file again.
	Again []int
}

// Observe records how snapshots differ from the journal. If there is an error (*[Error], *[ValueError]), it records
// nothing. A snapshot without a difference costs one query. Snapshots of one inbox must be in the order of their
// times. The returned changes share no memory with the snapshots.
func (j Messages) Observe(ctx context.Context, snapshots ...Snapshot) (Observation, error) {
	for i := range snapshots {
		if err := snapshots[i].check(); err != nil {
			return Observation{}, err
		}
	}
	var o Observation
	err := j.db.Do(ctx, "observe", func(c *sqlite.Conn) (err error) {
		o = Observation{} // this function runs again if the file was busy
		all, err := j.expand(c, snapshots)
		if err != nil {
			return err
		}
		todo := all
		defer func() {
			for i := range all {
				// Some views have changes that were rolled back. Those of inboxes that are gone would stay forever.
				if err != nil || all[i].Gone {
					j.forget(all[i].InboxKey)
				}
			}
		}()
		// Most inboxes have not changed. Without BEGIN IMMEDIATE, no other process waits.
		first := len(todo)
		for i := range todo {
			v, err := j.view(c, todo[i].InboxKey)
			if err != nil {
				return err
			}
			if d := v.compare(j.seed, todo[i].Rows); !d.none() {
				first = i
				break
			}
			j.unchanged(v, &todo[i])
		}
		if todo = todo[first:]; len(todo) == 0 {
			return nil
		}
		return j.number(c, func(n *numbers) error { return j.record(n, todo, &o) })
	})
	return o, err
}

func (s *Snapshot) check() error {
	list := []string{"root", s.Root, "team", s.Team, "inbox", s.Inbox}
	if s.Gone && s.Inbox == "" {
		list = list[:4]
	}
	if err := names(list...); err != nil {
		return err
	}
	switch {
	case s.At.IsZero():
		return invalid("time", "of a snapshot is missing")
	case !s.Done.IsZero() && s.Done.Before(s.At):
		return invalid("time", "of a snapshot ends before it begins")
	}
	for i := range s.Rows {
		if len(s.Rows[i].Raw) == 0 && !s.Gone {
			return invalid(fmt.Sprintf("row %d", i), "has no bytes")
		}
	}
	return nil
}

// numbered is a snapshot with its index in the arguments.
type numbered struct {
	Snapshot
	index        int
	began, ended int64
}

// expand replaces a snapshot of a whole team by one for each of its inboxes.
func (j Messages) expand(c *sqlite.Conn, snapshots []Snapshot) ([]numbered, error) {
	list := make([]numbered, 0, len(snapshots))
	for i, s := range snapshots {
		n := numbered{Snapshot: s, index: i, began: s.At.UnixMicro(), ended: s.At.UnixMicro()}
		if !s.Done.IsZero() {
			n.ended = s.Done.UnixMicro()
		}
		if s.Gone {
			n.Rows = nil
		}
		if s.Inbox != "" {
			list = append(list, n)
			continue
		}
		err := c.Query(func(v sqlite.Row) {
			n.Inbox = v.Text(0)
			list = append(list, n)
		}, "SELECT inbox FROM inboxes WHERE root=? AND team=? AND created_at=? ORDER BY inbox", s.Root, s.Team, s.CreatedAt)
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// order is how a snapshot compares with the newest one.
type order int

const (
	newer order = iota
	older
	overlaps
)

func (j Messages) order(v *view, s *numbered) order {
	switch {
	case v.id == 0, s.began >= v.ended, v.ended > j.now().UnixMicro(): // or the clock was set back
		return newer
	case s.ended <= v.began:
		return older
	}
	return overlaps
}

// unchanged remembers, in this process, that s is the newest look at an inbox.
func (j Messages) unchanged(v *view, s *numbered) {
	if j.order(v, s) == newer {
		v.began, v.ended = s.began, s.ended
	}
}

// record is the transaction of Observe.
func (j Messages) record(n *numbers, todo []numbered, o *Observation) error {
	c := n.conn
	for i := range todo {
		s := &todo[i]
		v, err := j.view(c, s.InboxKey)
		if err != nil {
			return err
		}
		d := v.compare(j.seed, s.Rows)
		if d.none() {
			j.unchanged(v, s)
			continue
		}
		r := recorder{conn: c, numbers: n, view: v, snapshot: s, order: j.order(v, s)}
		if err := r.record(&d); err != nil {
			return err
		}
		o.Changes = append(o.Changes, r.changes...)
		if r.order == overlaps {
			o.Again = append(o.Again, s.index)
		}
		j.remember(s.InboxKey, v)
	}
	return nil
}

// recorder records the differences of one snapshot, in the database and in the view.
type recorder struct {
	conn     *sqlite.Conn
	numbers  *numbers
	view     *view
	snapshot *numbered
	order    order
	latest   time.Time // when the last new row of the snapshot was written, as far as is known
	changes  []Change
}

func (r *recorder) record(d *difference) error {
	v, s := r.view, r.snapshot
	if v.id == 0 {
		id, err := r.conn.Number(`INSERT INTO inboxes (root, team, created_at, inbox, first_seen, began, ended, seq)
			VALUES (?, ?, ?, ?, ?, ?, ?, 0) RETURNING id`, append(inboxArgs(s.InboxKey), s.ended, s.began, s.ended)...)
		if err != nil {
			return err
		}
		v.id = id
	}
	before := r.numbers.last
	for _, f := range d.fresh {
		if err := r.appear(&s.Rows[f.row], d.rows[f.row], f.k); err != nil {
			return err
		}
	}
	if r.order == newer {
		for _, m := range d.reads {
			if err := r.read(m); err != nil {
				return err
			}
		}
		for _, g := range d.ends {
			for len(g.refs) > g.n {
				if err := r.end(g.refs[0].seq, s.ended); err != nil {
					return err
				}
				g.refs = g.refs[1:]
				v.held--
			}
		}
	}
	switch r.order {
	case newer:
		v.began, v.ended = s.began, s.ended
	case overlaps:
		// The next snapshot has to be newer than both.
		v.ended = max(v.ended, s.ended)
	}
	if r.numbers.last > before {
		v.seq = r.numbers.last
	} else if r.order != overlaps {
		return nil
	}
	_, err := r.conn.Exec("UPDATE inboxes SET began=?, ended=?, seq=? WHERE id=?", v.began, v.ended, v.seq, v.id)
	return err
}

// appear records a row that is new in the file, with k equal rows before it.
func (r *recorder) appear(row *inbox.Row, g *group, k int) error {
	c, v, s := r.conn, r.view, r.snapshot
	ever, err := occurrences(c, v.id, g.digest)
	if err != nil {
		return err
	}
	if r.order != newer && k < ever {
		return nil // it may be a row that was seen before
	}
	seen := time.UnixMicro(s.ended).UTC()
	m := Record{InboxKey: s.InboxKey, Seq: r.numbers.next(), Occurrence: ever + 1, FirstSeen: seen}
	m.set(row.Raw)
	// The row's own time is right if it lies between the last look and this one, and not before that of a row ahead.
	if at, ok := row.Time(); ok && r.order == newer && at.UnixMicro() > v.ended && !at.Before(r.latest) && at.Before(seen) {
		m.FirstSeen = at.UTC().Truncate(time.Microsecond)
	}
	r.latest = m.FirstSeen
	if row.Read {
		m.Row.Read, m.ReadAt = true, seen
	}
	if err := insert(c, v.id, g.digest, &m, row); err != nil {
		return err
	}
	if r.order == older {
		// The newest snapshot does not have it.
		m.GoneAt = time.UnixMicro(v.ended).UTC()
		r.changes = append(r.changes, Change{Seq: m.Seq, Kind: Appeared, Message: m})
		return r.end(m.Seq, v.ended)
	}
	r.changes = append(r.changes, Change{Seq: m.Seq, Kind: Appeared, Message: m})
	g.refs = append(g.refs, ref{m.Seq, row.Read})
	v.held++
	return nil
}

// occurrences returns the highest occurrence of a digest in an inbox, or 0.
func occurrences(c *sqlite.Conn, box int64, d digest) (int, error) {
	n, err := c.Number("SELECT occurrence FROM messages WHERE inbox=? AND digest=? ORDER BY occurrence DESC LIMIT 1", box, d[:])
	return int(n), err
}

// insert records a message of an inbox.
func insert(c *sqlite.Conn, box int64, d digest, m *Record, row *inbox.Row) error {
	_, err := c.Exec(`INSERT INTO messages (seq, inbox, digest, occurrence, first_seen, read_at, gone_at, id, sender, prompt, answer, raw)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		m.Seq, box, d[:], m.Occurrence, micros(m.FirstSeen), micros(m.ReadAt), micros(m.GoneAt),
		row.ID(), row.From, m.Prompt, m.Answer, []byte(row.Raw))
	return err
}

func (r *recorder) read(m *ref) error {
	if err := r.change(Read, m.seq, "UPDATE messages SET read_at=? WHERE seq=?", r.snapshot.ended); err != nil {
		return err
	}
	m.read = true
	return nil
}

func (r *recorder) end(seq, at int64) error {
	return r.change(Gone, seq, "UPDATE messages SET gone_at=? WHERE seq=?", at)
}

func (r *recorder) change(kind Kind, seq int64, update string, at int64) error {
	change, err := changed(r.conn, r.numbers, kind, seq, update, at)
	r.changes = append(r.changes, change)
	return err
}

// changed records that a message was read or is gone.
func changed(c *sqlite.Conn, n *numbers, kind Kind, seq int64, update string, at int64) (change Change, err error) {
	if _, err := c.Exec(update, at, seq); err != nil {
		return change, err
	}
	change = Change{Seq: n.next(), Kind: kind}
	if _, err := c.Exec("INSERT INTO changes (seq, kind, message) VALUES (?, ?, ?)", change.Seq, string(kind), seq); err != nil {
		return change, err
	}
	err = c.Query(func(v sqlite.Row) { change.Message = scan(v) }, "SELECT "+columns+" WHERE m.seq=?", seq)
	return change, err
}

// body returns the searchable words of a text. Of JSON, these are the strings, without the names of fields, and
// without escapes, which would merge with the words.
func body(row *inbox.Row) string {
	if row.Kind() == "message" {
		return row.Text
	}
	var words []string
	dec := json.NewDecoder(strings.NewReader(row.Text))
	// In an object, names and values take turns; an array has only values.
	type level struct{ object, value bool }
	var levels []level
	for {
		token, err := dec.Token()
		if err != nil {
			break // the end: Kind has checked that it is JSON
		}
		var in *level
		if len(levels) > 0 {
			in = &levels[len(levels)-1]
		}
		name := in != nil && in.object && !in.value
		if in != nil {
			in.value = name
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '}' || t == ']' {
				levels = levels[:len(levels)-1]
				continue
			}
			levels = append(levels, level{object: t == '{'})
		case string:
			if !name {
				words = append(words, t)
			}
		}
	}
	return strings.Join(words, "\n")
}

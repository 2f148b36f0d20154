package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// maxHeld is how many rows are held in memory in views, at about 200 bytes
// each. What is beyond is looked up again.
const maxHeld = 100_000

// digest is what makes a row this one, but for where it is and how many are
// equal: 128 bits of a SHA-256.
type digest [16]byte

func digestOf(r *inbox.Row) digest {
	var buf []byte
	for _, part := range []string{r.From, r.Text, r.Timestamp, r.Summary, r.Color, r.MsgID, r.MessageID} {
		// Its length first, so that no part can run over into the next.
		buf = binary.AppendUvarint(buf, uint64(len(part)))
		buf = append(buf, part...)
	}
	sum := sha256.Sum256(buf)
	return digest(sum[:16])
}

// mark is one message that is in the file.
type mark struct {
	seq  int64
	read bool
}

// entry is all that is equal in one inbox.
type entry struct {
	digest digest
	marks  []mark // oldest first
	n      int    // of the rows in the snapshot that is being compared
	taken  int
}

// view is what the journal holds of one inbox, in memory. It is up to date as
// long as the inbox has the seq it had.
type view struct {
	id           int64 // 0: the inbox is not in the journal yet
	seq          int64
	began, ended int64
	held         int // marks
	counted      int // of them in Journal.held
	entries      map[digest]*entry

	// What the bytes of a row of the last snapshots amounted to. Hashing 10,000
	// rows with a seeded 64-bit hash takes 1 ms, digesting them 15 ms.
	known map[uint64]*entry
}

func newView() *view {
	return &view{entries: map[digest]*entry{}, known: map[uint64]*entry{}}
}

// view returns what the journal has of an inbox at this moment.
func (j *Journal) view(c *sqlite.Conn, k InboxKey) (*view, error) {
	now := newView()
	err := c.Query(func(v sqlite.Row) {
		now.id, now.seq, now.began, now.ended = v.Int(0), v.Int(1), v.Int(2), v.Int(3)
	}, "SELECT id, seq, began, ended FROM inboxes WHERE "+thisInbox, k.args()...)
	if err != nil {
		return nil, err
	}
	if old := j.views[k]; old != nil && old.seq == now.seq {
		return old, nil
	}
	j.forget(k)
	if now.id == 0 {
		return now, nil
	}
	err = c.Query(func(v sqlite.Row) {
		var d digest
		copy(d[:], v.Blob(1))
		e := now.entry(d)
		e.marks = append(e.marks, mark{v.Int(0), v.Bool(2)})
		now.held++
	}, `SELECT seq, digest, read_at IS NOT NULL FROM messages INDEXED BY messages_present
		WHERE inbox=? AND gone_at IS NULL`, now.id)
	if err != nil {
		return nil, err
	}
	for _, e := range now.entries {
		slices.SortFunc(e.marks, func(a, b mark) int { return int(a.seq - b.seq) })
	}
	j.remember(k, now)
	return now, nil
}

func (j *Journal) remember(k InboxKey, v *view) {
	j.forget(k)
	if j.held+v.held > maxHeld {
		clear(j.views)
		j.held = 0
	}
	j.views[k] = v
	v.counted = v.held
	j.held += v.counted
}

func (j *Journal) forget(k InboxKey) {
	if v := j.views[k]; v != nil {
		j.held -= v.counted
		delete(j.views, k)
	}
}

func (v *view) entry(d digest) *entry {
	e := v.entries[d]
	if e == nil {
		e = &entry{digest: d}
		v.entries[d] = e
	}
	return e
}

// fresh is a row that was not known to be in the file.
type fresh struct {
	row int
	k   int // how many of its equals stand before it
}

// difference is what a snapshot has that the view has not, and the reverse.
type difference struct {
	rows  []*entry // of each row of the snapshot
	fresh []fresh  // rows that are one more than the marks
	reads []*mark  // marks that are read now
	ends  []*entry // with more marks than rows
}

func (d *difference) none() bool { return len(d.fresh)+len(d.reads)+len(d.ends) == 0 }

func (v *view) compare(seed maphash.Seed, rows []inbox.Row) difference {
	v.tidy(len(rows))
	for _, e := range v.entries {
		e.n, e.taken = 0, 0
	}
	d := difference{rows: make([]*entry, len(rows))}
	for i := range rows {
		h := maphash.Bytes(seed, rows[i].Raw)
		e := v.known[h]
		if e == nil {
			e = v.entry(digestOf(&rows[i]))
			v.known[h] = e
		}
		e.n++
		d.rows[i] = e
	}
	for i, e := range d.rows {
		// The oldest marks are those that are gone.
		nth := e.taken
		k := nth + max(0, len(e.marks)-e.n)
		e.taken++
		switch {
		case k >= len(e.marks):
			d.fresh = append(d.fresh, fresh{i, nth})
		case rows[i].Read && !e.marks[k].read:
			d.reads = append(d.reads, &e.marks[k])
		}
	}
	for _, e := range v.entries {
		if e.n < len(e.marks) {
			d.ends = append(d.ends, e)
		}
	}
	slices.SortFunc(d.ends, func(a, b *entry) int { return int(a.marks[0].seq - b.marks[0].seq) })
	return d
}

// tidy lets go of what earlier snapshots left, if it is more than is in use.
func (v *view) tidy(rows int) {
	most := 2*max(rows, v.held) + 64
	if len(v.known) <= most && len(v.entries) <= most {
		return
	}
	clear(v.known) // first: it must not lead to an entry that entries lacks
	for d, e := range v.entries {
		if len(e.marks) == 0 {
			delete(v.entries, d)
		}
	}
}

package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// maxHeld limits the rows that views hold in memory, at about 200 bytes each. Other views are read from the database
// again.
const maxHeld = 100_000

// digest identifies a row, except for its inbox and occurrence: 128 bits of a SHA-256.
type digest [16]byte

func digestOf(r *inbox.Row) digest {
	var buf []byte
	for _, part := range []string{r.From, r.Text, r.Timestamp, r.Summary, r.Color, r.MsgID, r.MessageID} {
		// Each part follows its length, so that different parts never give the same bytes.
		buf = binary.AppendUvarint(buf, uint64(len(part)))
		buf = append(buf, part...)
	}
	sum := sha256.Sum256(buf)
	return digest(sum[:16])
}

// ref is a message that is in the file.
type ref struct {
	seq  int64
	read bool
}

// group is the rows of an inbox that are equal.
type group struct {
	digest digest
	refs   []ref // oldest first
	n      int   // rows of the group in the snapshot that is being compared
	taken  int
}

// view holds the journal's rows of one inbox in memory. It is up to date as long as the inbox has the same seq.
type view struct {
	id           int64 // 0 if the inbox is not in the journal yet
	seq          int64
	began, ended int64
	held         int // refs
	counted      int // the part of held that is counted in database.held
	groups       map[digest]*group

	// The group of each row of the last snapshots, by a hash of its bytes, which is 15 times as fast as a digest.
	known map[uint64]*group
}

func newView() *view {
	return &view{groups: map[digest]*group{}, known: map[uint64]*group{}}
}

// view returns an up-to-date view of an inbox.
func (j *database) view(c *sqlite.Conn, k inbox.InboxKey) (*view, error) {
	now := newView()
	err := c.Query(func(v sqlite.Row) {
		now.id, now.seq, now.began, now.ended = v.Int(0), v.Int(1), v.Int(2), v.Int(3)
	}, "SELECT id, seq, began, ended FROM inboxes WHERE "+thisInbox, inboxArgs(k)...)
	if err != nil {
		return nil, err
	}
	if old := j.views[k]; old != nil && old.id == now.id && old.seq == now.seq {
		return old, nil
	}
	j.forget(k)
	if now.id == 0 {
		return now, nil
	}
	err = c.Query(func(v sqlite.Row) {
		var d digest
		copy(d[:], v.Blob(1))
		g := now.group(d)
		g.refs = append(g.refs, ref{v.Int(0), v.Bool(2)})
		now.held++
	}, `SELECT seq, digest, read_at IS NOT NULL FROM messages INDEXED BY messages_present
		WHERE inbox=? AND gone_at IS NULL`, now.id)
	if err != nil {
		return nil, err
	}
	for _, g := range now.groups {
		slices.SortFunc(g.refs, func(a, b ref) int { return int(a.seq - b.seq) })
	}
	j.remember(k, now)
	return now, nil
}

func (j *database) remember(k inbox.InboxKey, v *view) {
	j.forget(k)
	if j.held+v.held > maxHeld {
		clear(j.views)
		j.held = 0
	}
	j.views[k] = v
	v.counted = v.held
	j.held += v.counted
}

func (j *database) forget(k inbox.InboxKey) {
	if v := j.views[k]; v != nil {
		j.held -= v.counted
		delete(j.views, k)
	}
}

func (v *view) group(d digest) *group {
	g := v.groups[d]
	if g == nil {
		g = &group{digest: d}
		v.groups[d] = g
	}
	return g
}

// fresh is a row that was not known to be in the file.
type fresh struct {
	row int
	k   int // how many equal rows are before it
}

// difference is how a snapshot differs from the view.
type difference struct {
	rows  []*group // of each row of the snapshot
	fresh []fresh  // rows beyond the refs of their group
	reads []*ref   // refs whose rows are now read
	ends  []*group // with more refs than rows
}

func (d *difference) none() bool { return len(d.fresh)+len(d.reads)+len(d.ends) == 0 }

func (v *view) compare(seed maphash.Seed, rows []inbox.Row) difference {
	v.tidy(len(rows))
	for _, g := range v.groups {
		g.n, g.taken = 0, 0
	}
	d := difference{rows: make([]*group, len(rows))}
	for i := range rows {
		h := maphash.Bytes(seed, rows[i].Raw)
		g := v.known[h]
		if g == nil {
			g = v.group(digestOf(&rows[i]))
			v.known[h] = g
		}
		g.n++
		d.rows[i] = g
	}
	for i, g := range d.rows {
		// If refs are gone, they are the oldest.
		nth := g.taken
		k := nth + max(0, len(g.refs)-g.n)
		g.taken++
		switch {
		case k >= len(g.refs):
			d.fresh = append(d.fresh, fresh{i, nth})
		case rows[i].Read && !g.refs[k].read:
			d.reads = append(d.reads, &g.refs[k])
		}
	}
	for _, g := range v.groups {
		if g.n < len(g.refs) {
			d.ends = append(d.ends, g)
		}
	}
	slices.SortFunc(d.ends, func(a, b *group) int { return int(a.refs[0].seq - b.refs[0].seq) })
	return d
}

// tidy removes groups and hashes of earlier snapshots, if they are more than those in use.
func (v *view) tidy(rows int) {
	most := 2*max(rows, v.held) + 64
	if len(v.known) <= most && len(v.groups) <= most {
		return
	}
	clear(v.known) // first: it must not lead to a group that is not in groups
	for d, g := range v.groups {
		if len(g.refs) == 0 {
			delete(v.groups, d)
		}
	}
}

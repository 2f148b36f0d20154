package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"teambridge/teams"
)

// MaxPutBack is how often a message that was proved to be lost is put back.
const MaxPutBack = 3

// Fate is what became of a message that was written.
type Fate string

// The fates. A message that is gone counts as consumed unless its loss is
// proved: agents do not know a message again, so one that is put back wrongly
// is a duplicate.
const (
	Unconsumed Fate = "verified" // it waits in the inbox
	Consumed   Fate = "consumed" // it was taken: removed, or marked as read
	PutBack    Fate = "put back" // it was lost, and written again under its id
	Lost       Fate = "lost"     // it was lost, and put back too often already
)

// Tracked is a message that was written, with what it takes to prove that it
// was lost.
type Tracked struct {
	ID      string          // [Row.ID]
	Row     json.RawMessage // as it stands in the file
	Ahead   []string        // keys of unread rows in front of it: see [Ahead]
	PutBack int             // how often it was put back
}

// mostAhead is how many rows in front of a message are remembered at each end of
// them. One that is still there proves the loss, and those that are between others
// go with them; all rows of a long inbox, for each message that waits in it, would
// be megabytes, and milliseconds for each new one.
const mostAhead = 32

// Ahead returns the keys of the unread ones of rows, which stand in front of a
// message: of many, those of the first 32 and of the last.
func Ahead(rows []Row) []string {
	var unread []int
	for i := range rows {
		if !rows[i].Read {
			unread = append(unread, i)
		}
	}
	if len(unread) > 2*mostAhead {
		unread = slices.Delete(unread, mostAhead, len(unread)-mostAhead)
	}
	var keys []string
	for _, i := range unread {
		keys = append(keys, rows[i].Key())
	}
	return keys
}

// Track returns the message with that id as it stands in rows, the whole of an
// inbox; nil where it does not. Of several it is the last.
func Track(rows []Row, id string) *Tracked {
	for i := range slices.Backward(rows) {
		if rows[i].ID() == id {
			return trackRow(rows, i)
		}
	}
	return nil
}

// trackSent is Track for a message that is known by either of its ids. Where it was
// not just written it is the first, as for [Draft.Find].
func trackSent(rows []Row, m *Message, wrote bool) *Tracked {
	uid := msgID(m.ID)
	found := -1
	for i := range slices.Backward(rows) {
		if rows[i].MsgID == uid || rows[i].ID() == m.ID {
			if found = i; wrote {
				break
			}
		}
	}
	if found < 0 {
		return nil
	}
	return trackRow(rows, found)
}

func trackRow(rows []Row, i int) *Tracked {
	// A copy: the row is a part of all of the file.
	return &Tracked{ID: rows[i].ID(), Row: bytes.Clone(rows[i].Raw), Ahead: Ahead(rows[:i])}
}

// Look says what has become of a message, by what was seen of its inbox after it was
// written, and puts it back when it was lost: a tool that ignores the lock has
// overwritten the file.
//
// That is proved in two cases. Agents take all rows that wait, in the order of
// the file, so a row that is gone while one that stood unread in front of it is
// still there was not taken. And agents of the first generation remove nothing
// at all, so there every row that is gone was lost.
//
// Where the loss shows, the inbox is looked at again under its lock: then seen is
// what stood there in the end. After a put-back t is the message as it is now. The
// errors are those of [Inbox.Edit], and [ErrLost].
func (b *Inbox) Look(ctx context.Context, generation teams.Generation, t *Tracked, seen *Seen) (Fate, error) {
	if fate, lost := t.judge(generation, seen); !lost {
		return fate, nil
	}
	if t.PutBack >= MaxPutBack {
		return Lost, fmt.Errorf("message %q to %s was overwritten %d times: %w", t.ID, b.name, t.PutBack+1, ErrLost)
	}
	var fate Fate
	var g glance
	wrote := false
	err := b.edit(ctx, func(d *Draft) error {
		// Judged again under the lock: what was read without it may have been
		// on its way.
		var now Seen
		for _, r := range d.All() {
			now.Rows = append(now.Rows, r)
		}
		var lost bool
		if fate, lost = t.judge(generation, &now); lost {
			d.append(t.Row)
			wrote = true
		}
		return nil
	}, g.take)
	if err != nil {
		return Unconsumed, err
	}
	if now := g.seen(); now != nil {
		*seen = *now
	} else {
		*seen = Seen{At: g.began, Done: g.done}
	}
	if !wrote {
		return fate, nil
	}
	back := t.PutBack + 1
	if next := Track(seen.Rows, t.ID); next != nil {
		*t = *next
	}
	t.PutBack = back
	return PutBack, nil
}

// ErrLost means that a message was put back as often as is allowed, and lost
// again.
var ErrLost = errors.New("another program keeps overwriting it")

// judge says what was seen tells of the message; lost where it proves that.
func (t *Tracked) judge(generation teams.Generation, seen *Seen) (fate Fate, lost bool) {
	for i := range seen.Rows {
		if r := &seen.Rows[i]; r.ID() == t.ID {
			if r.Read {
				return Consumed, false
			}
			return Unconsumed, false
		}
	}
	return Consumed, generation == teams.G1 || t.Passed(seen)
}

// Passed reports whether in an inbox that the message is gone from an unread row is
// still there that stood in front of it.
func (t *Tracked) Passed(seen *Seen) bool {
	if len(t.Ahead) == 0 {
		return false
	}
	unread := seen.unread()
	return slices.ContainsFunc(t.Ahead, func(key string) bool { return unread[key] })
}

package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
	ID      string
	Row     json.RawMessage // as it was written
	Ahead   []string        // keys of the unread rows in front of it
	PutBack int             // how often it was put back
}

// track remembers what stands in front of row n of d, or of one that it is about
// to append (n is the number of elements).
func track(d *Draft, id string, row []byte, n int) *Tracked {
	t := &Tracked{ID: id, Row: row}
	for i, r := range d.All() {
		if i < n && !r.Read {
			t.Ahead = append(t.Ahead, r.Key())
		}
	}
	return t
}

// Look says what has become of a message, and puts it back when it was lost: a
// tool that ignores the lock has overwritten the file.
//
// That is proved in two cases. Agents take all rows that wait, in the order of
// the file, so a row that is gone while one that stood unread in front of it is
// still there was not taken. And agents of the first generation remove nothing
// at all, so there every row that is gone was lost.
//
// After a put-back t is the message as it is now. The errors are those of
// [Inbox.Read] and [Inbox.Edit]; a file that does not exist any more in a team
// that does counts as one from which everything is gone.
func (b *Inbox) Look(ctx context.Context, generation teams.Generation, t *Tracked) (Fate, error) {
	rows, err := b.Read(ctx)
	if err != nil && !errors.Is(err, ErrMissing) && !errors.Is(err, ErrEmpty) {
		return Unconsumed, err
	}
	if fate, lost := t.judge(generation, rows); !lost {
		return fate, nil
	}
	if t.PutBack >= MaxPutBack {
		return Lost, fmt.Errorf("message %q to %s was overwritten %d times: %w", t.ID, b.name, t.PutBack+1, ErrLost)
	}
	var fate Fate
	var next *Tracked
	err = b.Edit(ctx, func(d *Draft) error {
		// Judged again under the lock: what was read without it may have been
		// on its way.
		var rows []Row
		for _, r := range d.All() {
			rows = append(rows, r)
		}
		var lost bool
		next = nil
		if fate, lost = t.judge(generation, rows); lost {
			next = track(d, t.ID, t.Row, len(d.spans))
			d.append(t.Row)
		}
		return nil
	})
	if err != nil {
		return Unconsumed, err
	}
	if next == nil {
		return fate, nil
	}
	next.PutBack = t.PutBack + 1
	*t = *next
	return PutBack, nil
}

// ErrLost means that a message was put back as often as is allowed, and lost
// again.
var ErrLost = errors.New("another program keeps overwriting it")

// judge says what rows tell of the message; lost where they prove that.
func (t *Tracked) judge(generation teams.Generation, rows []Row) (fate Fate, lost bool) {
	ahead := map[string]bool{}
	for _, key := range t.Ahead {
		ahead[key] = true
	}
	passed := false
	for i := range rows {
		r := &rows[i]
		if r.ID() == t.ID {
			if r.Read {
				return Consumed, false
			}
			return Unconsumed, false
		}
		passed = passed || !r.Read && ahead[r.Key()]
	}
	return Consumed, passed || generation == teams.G1
}

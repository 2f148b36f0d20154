package journal

import (
	"context"
	"strconv"
	"strings"

	"teambridge/inbox/sqlite"
)

// A Position is how far somebody has read the changes of a journal.
//
// A number alone does not say that: another journal has the same numbers, and so
// has this one after a power cut that took back its last commits, or after an older
// copy was put in its place. So numbers are given in epochs: each opened [Journal]
// begins one with the first number that it gives. The numbers of what was lost are
// given again by somebody who has opened the journal since, in another epoch.
type Position struct {
	Epoch string // the random name of the epoch that Seq was given in
	Seq   int64
}

// String is the form that [ParsePosition] reads. It has no white space and nothing
// that a URL or a header would have to escape.
func (p Position) String() string { return p.Epoch + "-" + strconv.FormatInt(p.Seq, 10) }

// ParsePosition reads a position. ok is false for anything else, a bare number too.
func ParsePosition(s string) (p Position, ok bool) {
	epoch, seq, ok := strings.Cut(s, "-")
	n, err := strconv.ParseUint(seq, 10, 63)
	return Position{epoch, int64(n)}, ok && err == nil && epoch != "" && len(epoch) <= maxName
}

// PositionAt returns the position of a number that was given.
func (j *Journal) PositionAt(ctx context.Context, seq int64) (p Position, err error) {
	err = j.db.Do(ctx, "position", func(c *sqlite.Conn) (err error) {
		p, err = positionAt(c, seq)
		return err
	})
	return p, err
}

// Knows reports whether p is a position in the history that this journal has: what
// follows it are the changes after p.Seq.
func (j *Journal) Knows(ctx context.Context, p Position) (known bool, err error) {
	err = j.db.Do(ctx, "position", func(c *sqlite.Conn) error {
		return c.Transaction("DEFERRED", func() error {
			last, err := c.Number("SELECT seq FROM counter")
			if err != nil || p.Seq < 0 || p.Seq > last {
				known = false
				return err
			}
			here, err := positionAt(c, p.Seq)
			known = here == p
			return err
		})
	})
	return known, err
}

func positionAt(c *sqlite.Conn, seq int64) (Position, error) {
	p := Position{Seq: seq}
	err := c.Query(func(v []sqlite.Value) error {
		p.Epoch, _ = v[0].(string)
		return nil
	}, "SELECT id FROM epochs WHERE first<=? ORDER BY first DESC LIMIT 1", seq)
	return p, err
}

// numbers gives the numbers of one transaction.
type numbers struct {
	conn        *sqlite.Conn
	first, last int64 // given before, and now
}

func (n *numbers) next() int64 {
	n.last++
	return n.last
}

// number runs f as a transaction that gives numbers. It is used within db.Do.
func (j *Journal) number(c *sqlite.Conn, f func(*numbers) error) error {
	begins := false
	err := c.Transaction("IMMEDIATE", func() error {
		last, err := c.Number("SELECT seq FROM counter")
		if err != nil {
			return err
		}
		n := numbers{c, last, last}
		if err := f(&n); err != nil || n.last == n.first {
			return err
		}
		if begins = !j.inEpoch; begins {
			if _, err := c.Exec("INSERT INTO epochs (first, id) VALUES (?, "+randomEpoch+")", n.first+1); err != nil {
				return err
			}
		}
		_, err = c.Exec("UPDATE counter SET seq=?", n.last)
		return err
	})
	if err == nil && begins {
		j.inEpoch = true
	}
	return err
}

// randomEpoch is an expression for a new epoch's name.
const randomEpoch = "lower(hex(randomblob(8)))"

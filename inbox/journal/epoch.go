package journal

import (
	"context"
	"strconv"
	"strings"

	"teambridge/inbox/sqlite"
)

// A Position is the place that a reader has reached in the changes of a journal.
//
// The sequence number alone does not identify it. Another journal has the same numbers, and a journal reuses numbers
// that a power cut took back, or that a restored copy lacks. So each opened [Journal] begins an epoch with the first
// number that it assigns.
type Position struct {
	Epoch string // random name of the epoch of Seq
	Seq   int64
}

// String returns the form that [ParsePosition] reads. It needs no escapes in a URL or a header.
func (p Position) String() string { return p.Epoch + "-" + strconv.FormatInt(p.Seq, 10) }

// ParsePosition parses a position. ok is false if s is none, for example a number without an epoch.
func ParsePosition(s string) (p Position, ok bool) {
	epoch, seq, ok := strings.Cut(s, "-")
	n, err := strconv.ParseUint(seq, 10, 63)
	return Position{epoch, int64(n)}, ok && err == nil && epoch != "" && len(epoch) <= sqlite.MaxName
}

// PositionAt returns the position of a number that was assigned.
func (j *Journal) PositionAt(ctx context.Context, seq int64) (p Position, err error) {
	err = j.db.Do(ctx, "position", func(c *sqlite.Conn) (err error) {
		p, err = positionAt(c, seq)
		return err
	})
	return p, err
}

// Knows reports whether p is a position in the history of this journal. If so, a reader that stopped there continues
// with the changes after p.Seq.
func (j *Journal) Knows(ctx context.Context, p Position) (known bool, err error) {
	err = j.db.Transaction(ctx, "position", "DEFERRED", func(c *sqlite.Conn) error {
		last, err := c.Number("SELECT seq FROM counter")
		if err != nil || p.Seq < 0 || p.Seq > last {
			known = false
			return err
		}
		here, err := positionAt(c, p.Seq)
		known = here == p
		return err
	})
	return known, err
}

func positionAt(c *sqlite.Conn, seq int64) (Position, error) {
	p := Position{Seq: seq}
	err := c.Query(func(v sqlite.Row) { p.Epoch = v.Text(0) }, "SELECT id FROM epochs WHERE first<=? ORDER BY first DESC LIMIT 1", seq)
	return p, err
}

// numbers assigns the numbers of one transaction.
type numbers struct {
	conn        *sqlite.Conn
	first, last int64 // the last numbers assigned before the transaction, and so far
}

func (n *numbers) next() int64 {
	n.last++
	return n.last
}

// number runs f as a transaction that assigns numbers. It must be called within db.Do.
func (j *database) number(c *sqlite.Conn, f func(*numbers) error) error {
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

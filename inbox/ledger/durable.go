package ledger

import (
	"context"

	"teambridge/inbox/sqlite"
)

// durable makes the commits that follow wait for the disk. EXTRA is FULL where
// there is a write-ahead log; with a rollback journal FULL would let a power
// cut bring the journal back, and undo the commit.
func durable(c *sqlite.Conn) error {
	_, err := c.Exec("PRAGMA synchronous=EXTRA" + andDriveCache)
	return err
}

// quick makes the commits that follow leave the disk to the operating system.
func quick(c *sqlite.Conn) error {
	_, err := c.Exec("PRAGMA synchronous=NORMAL")
	return err
}

// write runs f as one transaction that no other process can come between.
// level is durable or quick; within a transaction it could not be chosen.
func (l *Ledger) write(ctx context.Context, op string, level func(*sqlite.Conn) error, f func(*sqlite.Conn) error) error {
	return l.db.Do(ctx, op, func(c *sqlite.Conn) error {
		if err := level(c); err != nil {
			return err
		}
		if l.inEpoch {
			return c.Transaction("IMMEDIATE", func() error { return f(c) })
		}
		var began bool
		err := c.Transaction("IMMEDIATE", func() (err error) {
			began, err = beginEpoch(c, f)
			return err
		})
		l.inEpoch = began && err == nil
		return err
	})
}

package ledger

import (
	"context"

	"teambridge/inbox/sqlite"
)

// Whether a commit waits for the disk. With a rollback journal, FULL instead of EXTRA
// would let a power cut bring the journal back, and undo the commit.
const (
	durable = "PRAGMA synchronous=EXTRA" + andDriveCache
	quick   = "PRAGMA synchronous=NORMAL"
)

// exec is write with one statement.
func (l *file) exec(ctx context.Context, op, level, query string, args ...sqlite.Value) error {
	return l.write(ctx, op, level, func(c *sqlite.Conn) error {
		_, err := c.Exec(query, args...)
		return err
	})
}

// write runs f as one transaction that no other process can come between. level is
// durable or quick; within a transaction it could not be chosen.
func (l *file) write(ctx context.Context, op, level string, f func(*sqlite.Conn) error) error {
	return l.db.Do(ctx, op, func(c *sqlite.Conn) error {
		if _, err := c.Exec(level); err != nil {
			return err
		}
		return c.Transaction("IMMEDIATE", func() error { return f(c) })
	})
}

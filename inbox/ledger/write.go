package ledger

import (
	"context"

	"teambridge/inbox/sqlite"
)

// The levels of a commit: durable waits for the disk, quick does not. With a rollback journal, a power cut after FULL
// instead of EXTRA could restore the journal file, which undoes the commit.
const (
	durable = "PRAGMA synchronous=EXTRA" + andDriveCache
	quick   = "PRAGMA synchronous=NORMAL"
)

// exec runs one statement as write does.
func (l *file) exec(ctx context.Context, op, level, query string, args ...sqlite.Value) error {
	return l.write(ctx, op, level, func(c *sqlite.Conn) error {
		_, err := c.Exec(query, args...)
		return err
	})
}

// write runs f as one transaction, which excludes other writers. level is durable or quick; it is set before, since
// SQLite cannot change it in a transaction.
func (l *file) write(ctx context.Context, op, level string, f func(*sqlite.Conn) error) error {
	return l.db.Do(ctx, op, func(c *sqlite.Conn) error {
		if _, err := c.Exec(level); err != nil {
			return err
		}
		return c.Transaction("IMMEDIATE", func() error { return f(c) })
	})
}

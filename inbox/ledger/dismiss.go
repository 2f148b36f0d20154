package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// Dismiss records, durably, that a person has seen the item with an id in a Claude root. [Ledger.Prune] forgets it.
// It fails with *[ValueError].
func (l Person) Dismiss(ctx context.Context, root, id string, at time.Time) error {
	if err := names("root", root, "id", id); err != nil {
		return err
	}
	return l.exec(ctx, "dismiss", durable, "INSERT INTO dismissed (root, id, at) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET at=excluded.at", root, id, micros(at))
}

// Dismissed returns the ids of the dismissed items of a Claude root.
func (l Person) Dismissed(ctx context.Context, root string) ([]string, error) {
	return sqlite.Select(ctx, l.db, "dismissed", func(v sqlite.Row) string { return v.Text(0) }, "SELECT id FROM dismissed WHERE root=? ORDER BY id", root)
}

func pruneDismissed(c *sqlite.Conn, at int64) (int64, error) {
	return c.Exec("DELETE FROM dismissed WHERE (root, id) IN (SELECT root, id FROM dismissed WHERE at<? LIMIT ?+0)", at, pruneRows)
}

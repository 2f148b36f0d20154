package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// LastSends tells when we last wrote, or meant to write, to each inbox of a team
// instance, by the inbox's name. An inbox that is not in it was never written to,
// or what is known of that was pruned.
func (l *Ledger) LastSends(ctx context.Context, root, team string, createdAt int64) (last map[string]time.Time, err error) {
	if err := names(field{"root", root}, field{"team", team}); err != nil {
		return nil, err
	}
	err = l.db.Do(ctx, "last sends", func(c *sqlite.Conn) error {
		last = map[string]time.Time{} // f runs again when the file was busy
		return c.Query(func(v []sqlite.Value) error {
			inbox, _ := v[0].(string)
			at, _ := v[1].(int64)
			last[inbox] = time.UnixMicro(at).UTC()
			return nil
		}, "SELECT inbox, max(at) FROM sends WHERE root=? AND team=? AND created_at=? GROUP BY inbox", root, team, createdAt)
	})
	return last, err
}

package ledger

import (
	"testing"
	"time"

	"teambridge/inbox/sqlite"
)

// Much is forgotten in pieces, each a transaction of its own, so that others can
// write in between.
func TestPruneInPieces(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	const rows = 2*pruneRows + 1
	fillSends(t, l, rows+1)
	left := func() (n int64) {
		t.Helper()
		err := l.db.Do(t.Context(), "count", func(c *sqlite.Conn) (err error) {
			n, err = c.Number("SELECT count(*) FROM sends")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	limit := time.UnixMicro(rows + 1)
	var gone int64
	err := l.write(t.Context(), "prune", quick, func(c *sqlite.Conn) (err error) {
		gone, err = pruneSends(c, limit.UnixMicro())
		return err
	})
	if err != nil || gone != pruneRows || left() != rows+1-pruneRows {
		t.Errorf("one piece: %d, %v, and %d are left; want %d", gone, err, left(), pruneRows)
	}
	if n, err := l.Prune(t.Context(), limit); err != nil || n != rows-pruneRows || left() != 1 {
		t.Errorf("the rest: %d, %v, and %d are left; want %d, and 1", n, err, left(), rows-pruneRows)
	}
}

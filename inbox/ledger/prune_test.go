package ledger

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// fillSends records n written messages in the ledger, each at its number in microseconds.
func fillSends(tb testing.TB, l *Ledger, n int) {
	tb.Helper()
	err := run(l, fmt.Sprintf(`INSERT INTO sends SELECT '/home/ann/.claude', 'blue', 1, 'bob',
		format('%%08x-0000-4000-8000-%%012x', value*2654435761%%4294967296, value), zeroblob(32), 'size 12', 'written', value, 0
		FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value+1 FROM n WHERE value<%d) SELECT value FROM n)`, n))
	must(tb, err)
}

// Prune forgets many messages in several transactions, so that others can write in between.
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
		must(t, err)
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

// A forgotten text is gone from the file, even the last one. A ledger that is too large forgets its oldest messages,
// and becomes smaller.
func TestPrunedTexts(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	const rows = 40
	for n := range rows {
		s := Send{SendKey: SendKey{InboxKey: inbox.InboxKey{Root: "/home/ann/.claude", Team: "blue", CreatedAt: 1, Inbox: "bob"}, ID: fmt.Sprint(n)}, Row: []byte(`{"text":"secret` + fmt.Sprint(n) + strings.Repeat(" ", 20000) + `"}`)}
		for _, err := range []error{l.Sends.Intend(t.Context(), s), l.Sends.Written(t.Context(), s.SendKey, time.Now()), l.Sends.Announce(t.Context())} {
			must(t, err)
		}
	}
	full, err := l.Size(t.Context())
	must(t, err)
	has := func(n int) bool {
		t.Helper()
		data, err := os.ReadFile(l.db.Path())
		must(t, err)
		return bytes.Contains(data, []byte(fmt.Sprintf(`"secret%d `, n)))
	}
	n, err := l.PruneTo(t.Context(), full/2)
	if left, _ := l.Size(t.Context()); err != nil || n == 0 || n == rows || left > full/2 || left < full/4 {
		t.Errorf("%d forgotten, %d bytes of %d left, %v", n, left, full, err)
	}
	if has(0) || !has(rows-1) {
		t.Errorf("the oldest is in the file: %t, the newest: %t", has(0), has(rows-1))
	}
	if _, err := l.PruneTo(t.Context(), 1); err != nil {
		t.Error(err)
	}
	for n := range rows {
		if has(n) {
			t.Errorf("text %d is in the file", n)
		}
	}
}

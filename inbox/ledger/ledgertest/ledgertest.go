// Package ledgertest makes ledgers for tests of packages that use one.
package ledgertest

import (
	"context"
	"path/filepath"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/inbox/sqlite/sqlitetest"
)

var template = sqlitetest.Template{Make: func(path string) error {
	l, err := ledger.Open(context.Background(), path)
	if err != nil {
		return err
	}
	return l.Close()
}}

// Seed puts an empty ledger into a state directory, unless there is one: [ledger.Open] would take longer to make it.
func Seed(t testing.TB, state string) {
	t.Helper()
	template.Seed(t, filepath.Join(state, "ledger.db"))
}

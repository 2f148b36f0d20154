package relay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/inbox/sqlite"
	"teambridge/relay/mode"
)

// Prompts that an earlier version sent are not sent again after an upgrade.
func TestPromptsOfLandedVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it opens a ledger of every version")
	}
	t.Parallel()
	paths, err := filepath.Glob("../inbox/ledger/testdata/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	for _, path := range paths {
		script, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		db := filepath.Join(t.TempDir(), "ledger.db")
		d, err := sqlite.Open(t.Context(), db, sqlite.Format{Name: "fixture", Application: 1, Schema: []string{"SELECT 1"}})
		if err == nil {
			err = d.Do(t.Context(), "make", func(c *sqlite.Conn) error { _, err := c.Exec(string(script)); return err })
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		l, err := ledger.Open(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		key := ledger.InboxKey{Root: "/tmp/demo/claude", Team: "demo", CreatedAt: 1795196213317, Inbox: "helper"}
		for _, in := range []Input{
			{ID: "six", Text: "as a prompt"},
			{ID: "seven", Text: "in plan mode", Mode: mode.Mode{PermissionMode: mode.Set("plan")}},
		} {
			// It was a prompt if it has a delivery, and else a row of the inbox.
			if !strings.Contains(string(script), "'', 0, '"+in.ID+"', 'user'") {
				continue
			}
			again++
			in.From, in.DefaultFrom = "user", true
			if results, err := Prompts(t.Context(), l, key, in); err != nil || !results[0].Again {
				t.Errorf("%s: %s: %+v, %v", filepath.Base(path), in.ID, results, err)
			}
		}
	}
	if again < 20 {
		t.Errorf("%d prompts were sent before", again)
	}
}

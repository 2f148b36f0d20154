package journal

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox/sqlite"
	"teambridge/inbox/sqlite/sqlitetest"
)

// A journal of each version that there was becomes one of the newest, with all it had.
func TestLandedVersions(t *testing.T) {
	t.Parallel()
	sqlitetest.Landed(t, func(t *testing.T, script string, earlier bool, version int) {
		path := filepath.Join(t.TempDir(), "journal.db")
		d, err := sqlite.Open(t.Context(), path, sqlite.Format{Name: "fixture", Application: 1, Schema: []string{"SELECT 1"}, Create: format().Create})
		must(t, err)
		var before int64
		must(t, d.Do(t.Context(), "make", func(c *sqlite.Conn) (err error) {
			if _, err = c.Exec(script); err == nil {
				before, err = c.Number("SELECT count(*) FROM messages")
			}
			return err
		}))
		must(t, d.Close())

		j := mustOpen(t, path)
		if diff := cmp.Diff(schemaOf(t, newJournal(t)), schemaOf(t, j)); diff != "" {
			t.Errorf("schema of a new journal (-) and of this one (+):\n%s", diff)
		}
		if n := number(t, j, "PRAGMA user_version"); int(n) != len(format().Schema) {
			t.Errorf("version %d", n)
		}
		if n := number(t, j, "SELECT count(*) FROM messages"); n != before || n < 2 {
			t.Errorf("%d messages; there were %d", n, before)
		}
		sound(t, j)
		var texts []string
		for m, err := range j.Messages(t.Context(), Query{Team: "demo", Inbox: "worker"}) {
			must(t, err)
			texts = append(texts, m.Text)
		}
		if !slices.Contains(texts, "the release key is in the safe") || !slices.Contains(texts, "alice was here") {
			t.Errorf("messages: %q", texts)
		}
		found := 0
		for m, err := range j.Search(t.Context(), "release", Query{}) {
			must(t, err)
			if m.ID() == "one" {
				found++
			}
		}
		if found != 1 {
			t.Errorf("the message was found %d times", found)
		}
		if earlier && version >= 2 || !earlier {
			if n := number(t, j, "SELECT count(*) FROM receipts WHERE team='demo' AND id='one' AND state='consumed'"); n != 1 {
				t.Errorf("%d receipts", n)
			}
		}
		last, err := j.Last(t.Context())
		must(t, err)
		changes, err := j.Changes(t.Context(), number(t, j, "SELECT pruned FROM counter"), 1000)
		if err != nil || len(changes) == 0 || changes[len(changes)-1].Seq != last {
			t.Errorf("%d changes up to %d: %v", len(changes), last, err)
		}
		// It can be used.
		observe(t, j, look(t, 1, row("word")))
		_, err = j.Verified(t.Context(), aKey("new"), at(1))
		must(t, err)
		for name, use := range uses(j, look(t, 2, row("word"), row("more"))) {
			if err := use(t.Context()); err != nil && !errors.Is(err, ErrPruned) { // by one of them
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func schemaOf(t *testing.T, j *Journal) []string {
	t.Helper()
	all, err := sqlitetest.Schema(func(sql string, row func(string)) error {
		return j.db.Do(t.Context(), "test", func(c *sqlite.Conn) error {
			return c.Query(func(v sqlite.Row) { row(v.Text(0)) }, sql)
		})
	})
	must(t, err)
	return all
}

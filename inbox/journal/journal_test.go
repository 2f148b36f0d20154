package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
	"teambridge/inbox/sqlite/sqlitetest"
	"teambridge/teams"
	"teambridge/teams/errtest"
)

var monday = time.Date(2026, 11, 16, 9, 0, 0, 123456000, time.UTC)

const root = "/home/ann/.claude"

func blue() teams.Instance { return teams.Instance{Team: "blue", CreatedAt: 1763280000000} }

// at returns the time that many seconds after monday.
func at(seconds float64) time.Time {
	return monday.Add(time.Duration(seconds * float64(time.Second)))
}

func mustOpen(t testing.TB, path string) *Journal {
	t.Helper()
	j, err := Open(t.Context(), path)
	must(t, err)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

var template = sqlitetest.Template{Make: func(path string) error {
	made, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	return made.Close()
}}

func newJournal(t testing.TB) *Journal {
	t.Helper()
	return mustOpen(t, template.New(t, "journal.db"))
}

var must = errtest.Must

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// file returns these rows as the rows of a snapshot.
func file(t testing.TB, rows ...string) []inbox.Row {
	t.Helper()
	parsed, err := inbox.Parse([]byte("[" + strings.Join(rows, ",") + "]"))
	must(t, err)
	return parsed
}

// row returns a row with this text, from a clock that is ahead, and with more fields, such as `"read":true`.
func row(text string, more ...string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	fields := append([]string{`"from":"ann"`, `"text":` + string(quoted), `"timestamp":"2026-11-16T10:00:00.000Z"`}, more...)
	return "{" + strings.Join(fields, ",") + "}"
}

// look returns a snapshot of bob's inbox from that many seconds after monday.
func look(t testing.TB, seconds float64, rows ...string) Snapshot {
	t.Helper()
	return Snapshot{InboxKey: inbox.Key(root, blue(), "bob"), Rows: file(t, rows...), At: at(seconds)}
}

func observe(t testing.TB, j *Journal, snapshots ...Snapshot) Observation {
	t.Helper()
	o, err := j.Messages.Observe(t.Context(), snapshots...)
	must(t, err)
	return o
}

// short returns changes as one text: "1 appeared a#1, 2 gone a#1".
func short(changes []Change) string {
	var list []string
	for _, c := range changes {
		if c.Kind == Receipted {
			list = append(list, fmt.Sprintf("%d %s %s", c.Seq, c.Receipt.State, c.Receipt.ID))
			continue
		}
		if c.Kind == Relaying {
			list = append(list, fmt.Sprintf("%d relay %s %s", c.Seq, c.RelayEvent.Delivery, c.RelayEvent.State))
			continue
		}
		if c.Kind == Said {
			list = append(list, fmt.Sprintf("%d envelope %s", c.Seq, c.Envelope.ID))
			continue
		}
		list = append(list, fmt.Sprintf("%d %s %s#%d", c.Seq, c.Kind, c.Message.Text, c.Message.Occurrence))
	}
	return strings.Join(list, ", ")
}

func wantChanges(t testing.TB, got []Change, want string) {
	t.Helper()
	if diff := cmp.Diff(want, short(got)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func messages(t testing.TB, j *Journal, q Query) (list []Record) {
	t.Helper()
	for m, err := range j.Messages.All(t.Context(), q) {
		must(t, err)
		list = append(list, m)
	}
	return list
}

func texts(list []Record) string {
	var s []string
	for _, m := range list {
		s = append(s, m.Text)
	}
	return strings.Join(s, " ")
}

// run and number use the database directly.
func run(j *Journal, sql string, args ...sqlite.Value) error {
	return j.db.Do(context.Background(), "test", func(c *sqlite.Conn) error {
		_, err := c.Exec(sql, args...)
		return err
	})
}

func number(t testing.TB, j *Journal, sql string) (n int64) {
	t.Helper()
	must(t, j.db.Do(context.Background(), "test", func(c *sqlite.Conn) (err error) {
		n, err = c.Number(sql)
		return err
	}))
	return n
}

package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
	"teambridge/inbox/sqlite/sqlitetest"
)

// landed makes a database with a script of testdata, at a path that it returns.
func landed(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	d, err := sqlite.Open(t.Context(), path, sqlite.Format{Name: "fixture", Application: 1, Schema: []string{"SELECT 1"}})
	must(t, err)
	must(t, d.Do(t.Context(), "make", func(c *sqlite.Conn) error { _, err := c.Exec(script); return err }))
	must(t, d.Close())
	return path
}

func schemaOf(t *testing.T, l *Ledger) []string {
	t.Helper()
	all, err := sqlitetest.Schema(func(sql string, row func(string)) error {
		return query(l, func(v sqlite.Row) { row(v.Text(0)) }, sql)
	})
	must(t, err)
	return all
}

// demoMessages were sent with the commands of each version, by their ids.
func demoMessages() map[string]inbox.Message {
	all := map[string]inbox.Message{
		"one": {Text: "the release key is in the safe"}, "two": {Text: "alice was here", From: "alice"}, "three": {Text: "sent without a service"},
		"four": {Text: "work on it"}, "six": {Text: "as a prompt"}, "eight": {Text: "from the worker", From: "worker"},
	}
	for id, m := range all {
		if m.From == "" {
			m.From, m.DefaultFrom = "user", true
			all[id] = m
		}
	}
	return all
}

// A ledger of each version that there was becomes one of the newest, with all it had: what
// was sent is known by its id, and what was on its way goes on.
func TestLandedVersions(t *testing.T) {
	t.Parallel()
	sqlitetest.Landed(t, func(t *testing.T, script string, earlier bool, version int) {
		l := mustOpen(t, landed(t, script))
		if diff := cmp.Diff(schemaOf(t, newLedger(t)), schemaOf(t, l)); diff != "" {
			t.Errorf("schema of a new ledger (-) and of this one (+):\n%s", diff)
		}
		if n, err := number(l, "PRAGMA user_version"); err != nil || int(n) != len(format().Schema) {
			t.Errorf("version %d, %v", n, err)
		}
		wantDemo(t, l)
		wantEvents(t, l)
		if earlier {
			wantDeveloped(t, l, version)
		}
		// It can be used.
		must(t, l.Intend(t.Context(), aSend("new")))
		must(t, l.Written(t.Context(), aKey("new"), tuesday))
		must(t, l.Announce(t.Context()))
		must(t, l.Claim(t.Context(), aRow("new")))
		must(t, l.AddTeam(t.Context(), OwnedTeam{Root: "/r", Team: "new", CreatedAt: 1, Lead: "x", Session: "s", Leaders: []string{"1"}}))
		must(t, l.Hold(t.Context(), Hold{InboxKey: bob, Sender: "new", Reason: "why", Since: tuesday}))
		must(t, l.Answered(t.Context(), bob, "new"))
		must(t, l.SetSession(t.Context(), aSession()))
		_, err := l.Prune(t.Context(), monday)
		must(t, err)
	})
}

// A ledger of a version between, of which no program was used long enough to have one in testdata, too.
func TestVersionsBetween(t *testing.T) {
	t.Parallel()
	for version, before := range map[int]string{4: "version3", 6: "version5", 7: "version5", 9: "version8", 11: "version10"} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(filepath.Join("testdata", before+".sql"))
			must(t, err)
			path := landed(t, string(script))
			then := format()
			then.Schema = then.Schema[:version]
			d, err := sqlite.Open(t.Context(), path, then)
			must(t, err)
			must(t, d.Close())
			l := mustOpen(t, path)
			if diff := cmp.Diff(schemaOf(t, newLedger(t)), schemaOf(t, l)); diff != "" {
				t.Errorf("schema of a new ledger (-) and of this one (+):\n%s", diff)
			}
			wantDemo(t, l)
			wantEvents(t, l)
			copies, err := sqlite.Copies(path)
			if want := []string{fmt.Sprintf("%s.version%d", path, version)}; err != nil || !slices.Equal(copies, want) {
				t.Errorf("copies %q, %v; want %q", copies, err, want)
			}
		})
	}
}

// wantDemo wants what was sent to be known, so that it is not sent again.
func wantDemo(t *testing.T, l *Ledger) {
	t.Helper()
	messages := demoMessages()
	known := map[string]bool{}
	var keys []SendKey
	must(t, query(l, func(v sqlite.Row) {
		keys = append(keys, SendKey{Root: v.Text(0), Team: v.Text(1), CreatedAt: v.Int(2), Inbox: v.Text(3), ID: v.Text(4)})
	}, "SELECT root, team, created_at, inbox, id FROM sends WHERE team='demo'"))
	for _, k := range keys {
		known[k.ID] = true
		m, ok := messages[k.ID]
		if !ok {
			continue // a prompt with a mode; package relay tests it
		}
		send, found, err := l.Recall(t.Context(), k)
		if err != nil || !found || send.State != Written || !slices.Contains(m.Digests(), send.Digest) {
			t.Errorf("%v: %+v, found %t, %v", k, send, found, err)
		}
		wantError(t, l.Intend(t.Context(), send), ErrWritten)
		other := m
		other.Text += "!"
		if slices.Contains(other.Digests(), send.Digest) {
			t.Errorf("%v passes for another text", k)
		}
	}
	for _, id := range []string{"one", "two", "three"} {
		if !known[id] {
			t.Errorf("%s is not known", id)
		}
	}
	list, err := l.Deliveries(t.Context(), DeliveryQuery{Root: "/tmp/demo/claude", States: []DeliveryState{Done}})
	if err != nil || len(list) == 0 && (known["four"] || known["six"]) {
		t.Errorf("deliveries: %v, %v", list, err)
	}
	for _, d := range list {
		if !known[d.ID] || d.Inbox != "helper" {
			t.Errorf("delivery %+v", d)
		}
	}
}

// wantEvents wants the events in order, each in an epoch.
func wantEvents(t *testing.T, l *Ledger) {
	t.Helper()
	must(t, l.Announce(t.Context()))
	events, err := l.Events(t.Context(), 0, 1000)
	must(t, err)
	epochs, err := l.Epochs(t.Context())
	must(t, err)
	if len(events) > 0 && (len(epochs) == 0 || epochs[0].First > events[0].N) {
		t.Errorf("%d events from %d on, epochs %v", len(events), events[0].N, epochs)
	}
	for i := 1; i < len(events); i++ {
		if events[i].N <= events[i-1].N {
			t.Errorf("event %d after %d", events[i].N, events[i-1].N)
		}
	}
}

// wantDeveloped wants what the tests of that time had put into a ledger of a development
// version.
func wantDeveloped(t *testing.T, l *Ledger, version int) {
	t.Helper()
	intended, done := aSend("intended"), aSend("done")
	intended.State, done.State, done.At = Intent, Written, tuesday
	want(t, l, intended)
	want(t, l, done)
	joins, err := l.JoinsUnder(t.Context(), "/r")
	if err != nil || len(joins) != 1 || joins[0].AgentID != "operator@blue" {
		t.Errorf("joins: %v, %v", joins, err)
	}
	if version < 2 {
		return
	}
	f, found, err := l.InFlight(t.Context(), bob)
	if err != nil || !found || f.UUID != "n1" || f.Parent != "f1" || string(f.Bytes) != `{"uuid":"n1"}` {
		t.Errorf("in flight: %+v, found %t, %v", f, found, err)
	}
	waiting, err := l.Waiting(t.Context(), bob)
	if diff := cmp.Diff([]string{"typed", "waiting"}, uuids(waiting)); err != nil || diff != "" {
		t.Errorf("waiting: %v (-want +got):\n%s", err, diff)
	}
	unmarked, err := l.Unmarked(t.Context(), bob)
	if diff := cmp.Diff([]string{"unmarked"}, uuids(unmarked)); err != nil || diff != "" {
		t.Errorf("unmarked: %v (-want +got):\n%s", err, diff)
	}
	if n, err := l.Occurrences(t.Context(), bob, "key of taken"); err != nil || n != 1 {
		t.Errorf("occurrences of a row: %d, %v", n, err)
	}
	if s, found, err := l.Session(t.Context(), bob); err != nil || !found || s.ID != "session-2" || s.PID != 4711 {
		t.Errorf("session %+v, found %t, %v", s, found, err)
	}
	if version >= 4 {
		relays, err := l.Relays(t.Context(), "/r")
		if err != nil || len(relays) == 0 || !slices.Equal(relays[0].Command, []string{"claude", "--model", "a b"}) || relays[0].Member != "bob" {
			t.Errorf("relays: %+v, %v", relays, err)
		}
	}
	if version >= 7 {
		teams, err := l.Teams(t.Context(), "/r", "ours")
		if err != nil || len(teams) != 1 || teams[0].Lead != "boss" || len(teams[0].Leaders) != 2 {
			t.Errorf("teams: %+v, %v", teams, err)
		}
	}
	if version >= 11 {
		wantHolds(t, l, Hold{InboxKey: bob, Sender: "worker", Reason: "they answered each other", Since: tuesday})
	}
}

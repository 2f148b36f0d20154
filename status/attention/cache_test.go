package attention

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

var must = errtest.Must

// crowd creates teams of ten agents. Each agent has sent messages to its lead and to the person.
func crowd(t testing.TB, count int) *world {
	t.Helper()
	w := open(t, teamstest.New(t))
	at := time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")
	for i := range count {
		team := fmt.Sprintf("team-%03d", i)
		members := []string{"team-lead"}
		for m := range 9 {
			members = append(members, fmt.Sprintf("worker-%d", m))
		}
		w.Make(team, int64(i+1), members...)
		var rows []any
		for n := range 20 {
			rows = append(rows, map[string]any{
				"from": fmt.Sprintf("worker-%d", n%9), "text": fmt.Sprintf("result %d of my work, which is done", n), "timestamp": at, "read": false,
			})
		}
		data, err := json.Marshal(rows)
		must(t, err)
		dir := w.Path(team, "inboxes")
		must(t, os.MkdirAll(dir, 0o700))
		for _, name := range []string{"team-lead", "user"} {
			must(t, os.WriteFile(filepath.Join(dir, name+".json"), data, 0o600))
		}
	}
	w.record(t)
	return w
}

// Nothing is read again if the files, the journal and the ledger did not change.
func TestNothingIsReadAgain(t *testing.T) {
	t.Parallel()
	w := crowd(t, 3)
	c := New(w.Options)
	refresh := func(want ...string) {
		t.Helper()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range c.entries {
			e.team.Cwd, e.waits = "not read", nil
		}
		must(t, c.refresh(t.Context()))
		var got []string
		for _, l := range c.list {
			switch e := c.entries[l.Team]; {
			case e.team.Cwd != "not read":
				got = append(got, l.Team)
			case len(e.waits) > 0:
				got = append(got, "relays of "+l.Team)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("read %q, want %q", got, want)
		}
	}
	refresh("team-000", "team-001", "team-002")
	refresh()
	key := inbox.InboxKey{Root: w.Fixture.Root.Path(), Team: "team-001", CreatedAt: 2, Inbox: "worker-1"}
	must(t, w.Ledger.Sessions.SetSession(t.Context(), ledger.Session{InboxKey: key, ID: "s"}))
	refresh("relays of team-001")
	refresh()
	// Another process has recorded something, and the times of the files do not show it.
	times := map[string]time.Time{}
	for _, name := range []string{"ledger.db", "ledger.db-wal"} {
		info, err := os.Stat(filepath.Join(w.Fixture.State, name))
		must(t, err)
		times[info.Name()] = info.ModTime()
	}
	other, err := ledger.Open(t.Context(), filepath.Join(w.Fixture.State, "ledger.db"))
	must(t, err)
	must(t, other.Sessions.SetSession(t.Context(), ledger.Session{InboxKey: key, ID: "s", State: ledger.RelayRunning}))
	// The copy, which comes within 2 s, makes news of its own.
	if _, err := w.Journal.Copy(t.Context(), w.Ledger); err != nil {
		t.Fatal(err)
	}
	for name, at := range times {
		must(t, os.Chtimes(filepath.Join(w.Fixture.State, name), at, at))
	}
	refresh("relays of team-001")
	if read := c.ledgerNews; read != 3 {
		t.Errorf("the ledger was read %d times, want 3", read)
	}
	refresh()
	if read := c.ledgerNews; read != 3 {
		t.Errorf("the ledger was read %d times, want 3 again", read)
	}
	must(t, other.Close())
	key2 := inbox.SendKey{InboxKey: inbox.InboxKey{Root: w.Fixture.Root.Path(), Team: "team-002", CreatedAt: 3, Inbox: "worker-1"}, ID: "m"}
	if _, err := w.Journal.Receipts.Lost(t.Context(), key2, time.Now(), "overwritten"); err != nil {
		t.Fatal(err)
	}
	refresh("team-002")
	refresh()
}

// An item that another process dismisses waits no more.
func TestDismissedElsewhere(t *testing.T) {
	t.Parallel()
	w := crowd(t, 2)
	key := inbox.SendKey{InboxKey: inbox.InboxKey{Root: w.Fixture.Root.Path(), Team: "team-001", CreatedAt: 2, Inbox: "worker-1"}, ID: "m"}
	if _, err := w.Journal.Receipts.Lost(t.Context(), key, time.Now(), "overwritten"); err != nil {
		t.Fatal(err)
	}
	told := 0
	opts := w.Options
	opts.Changed = func() { told++ }
	c := New(opts)
	lost := func() (found []api.Attention) {
		t.Helper()
		list, err := c.Attention(t.Context(), "")
		must(t, err)
		return slices.DeleteFunc(list, func(a api.Attention) bool { return a.Kind != api.WaitsLost })
	}
	before := lost()
	if len(before) != 1 || told != 1 {
		t.Fatalf("lost is %+v, told %d times", before, told)
	}
	if _, err := New(w.Options).Dismiss(t.Context(), before[0].ID); err != nil {
		t.Fatal(err)
	}
	if after := lost(); len(after) != 0 || told != 2 {
		t.Errorf("lost is %+v, told %d times", after, told)
	}
}

// BenchmarkRefresh refreshes the states of 100 teams of 10 members: when nothing has changed,
// and when one inbox has.
func BenchmarkRefresh(b *testing.B) {
	w := crowd(b, 100)
	c := New(w.Options)
	refresh := func() {
		must(b, c.Refresh(b.Context()))
	}
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.mu.Lock()
			clear(c.entries)
			c.mu.Unlock()
			refresh()
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			refresh()
		}
	})
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.mu.Lock()
			c.entries["team-050"].stale = true
			c.mu.Unlock()
			refresh()
		}
	})
}

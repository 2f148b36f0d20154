package attention

import (
	"slices"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/teams/teamstest"
)

// unregistered is a watch that has found no pane.
func unregistered(t testing.TB) *Watch {
	t.Helper()
	w := open(t, teamstest.New(t))
	watch := NewWatch(w.Panes, w.Ledger)
	if changed, err := watch.Look(t.Context()); changed || err != nil || watch.list != nil || watch.news != 0 {
		t.Fatalf("seen without a pane: %+v, %v", watch.list, err)
	}
	return watch
}

// While no pane is registered and no process has started, no program is run, and panes and sessions are not even listed.
func TestNoPaneCostsNothing(t *testing.T) {
	t.Parallel()
	watch := unregistered(t)
	watch.panes = nil // a use of it panics
	if changed, err := watch.Look(t.Context()); changed || err != nil {
		t.Errorf("it has changed: %t, %v", changed, err)
	}
}

// Without a watch, the ledger has the items of panes.
func TestPanesWithoutAWatch(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), open(t, teamstest.Captured(t, teamstest.OlderVersion, teamstest.NewerVersion))
	w.Narrow = true
	l := w.Ledger
	p, err := l.Panes.Add(ctx, ledger.Pane{
		InboxKey: inbox.InboxKey{Root: w.Fixture.Root.Path(), Inbox: "build"}, Socket: "/nowhere", Server: 1, ID: "%1", PID: 2, Profile: "claude",
	}, false)
	must(t, err)
	put := func(id string) {
		t.Helper()
		if _, _, err := l.PaneMessages.Add(ctx, ledger.PaneMessage{Policy: "queued", Delivery: ledger.Delivery{
			UUID: id, InboxKey: p.InboxKey, Person: true, ID: id, From: "user", Raw: []byte("text"),
		}}, [32]byte{}); err != nil {
			t.Fatal(err)
		}
	}
	put("unsure")
	must(t, l.Deliveries.End(ctx, ledger.Failed, ledger.CauseUnknown.Reason("nothing shows it"), "unsure"))
	put("waits")
	must(t, l.PaneMessages.Hold(ctx, "waits", "gone", "the pane is gone", time.Now()))
	for team, want := range map[string]int{"": 2, "tmux": 2, teamstest.Newer: 0} {
		list, err := New(w.Options).Attention(ctx, team)
		must(t, err)
		list = slices.DeleteFunc(list, func(a api.Attention) bool { return a.Team != "tmux" })
		if len(list) != want {
			t.Errorf("of team %q: %+v, want %d", team, list, want)
		}
		for _, a := range list {
			switch {
			case a.Kind == api.WaitsUnknown && a.Delivery == "unsure" && a.What == "a message may not have been sent: nothing shows it":
			case a.Kind == api.WaitsStopped && a.Count == 1 && a.Member == "build":
			default:
				t.Errorf("of team %q: %+v", team, a)
			}
		}
	}
}

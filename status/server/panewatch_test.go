package server

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/status/api"
)

// unregistered is a watch that has found no pane.
func unregistered(t testing.TB) *paneWatch {
	t.Helper()
	w := newWorld(t)
	l, err := ledger.Open(t.Context(), filepath.Join(w.State, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := &Server{opts: Options{Root: w.Root, State: w.State}, log: slog.New(slog.DiscardHandler), ledger: l, panes: pane.New(pane.Options{Root: w.Root, Ledger: l, State: w.State})}
	s.statuses = &statusCache{Server: s, dirty: make(chan struct{}, 1)}
	watch := &paneWatch{Server: s}
	watch.look(t.Context())
	if watch.list != nil || watch.news != 0 {
		t.Fatalf("seen without a pane: %+v", watch.list)
	}
	return watch
}

// While no pane is registered, no program is run, and the panes are not even listed.
func TestNoPaneCostsNothing(t *testing.T) {
	t.Parallel()
	watch := unregistered(t)
	watch.panes = nil // so that using it panics
	watch.look(t.Context())
	if len(watch.statuses.dirty) != 0 {
		t.Error("the statuses are read again")
	}
}

// While no service runs, the ledger tells what waits for the person because of panes, and
// nothing is looked at.
func TestPanesUnserved(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), newWorld(t)
	l, err := ledger.Open(ctx, filepath.Join(w.State, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	j, err := journal.Open(ctx, filepath.Join(w.State, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	p, err := l.AddPane(ctx, ledger.Pane{
		InboxKey: ledger.InboxKey{Root: w.Root.Path(), Inbox: "build"}, Socket: "/nowhere", Server: 1, ID: "%1", PID: 2, Profile: "claude",
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	put := func(id string) {
		t.Helper()
		if _, _, err := l.AddPaneMessage(ctx, ledger.PaneMessage{Policy: "queued", Delivery: ledger.Delivery{
			UUID: id, InboxKey: p.InboxKey, Person: true, ID: id, From: "user", Raw: []byte("text"),
		}}, [32]byte{}); err != nil {
			t.Fatal(err)
		}
	}
	put("unsure")
	if err := l.EndDeliveries(ctx, ledger.Failed, pane.Unknown+"nothing shows it", "unsure"); err != nil {
		t.Fatal(err)
	}
	put("waits")
	if err := l.HoldPaneMessage(ctx, "waits", "gone", "the pane is gone", time.Now()); err != nil {
		t.Fatal(err)
	}
	for team, want := range map[string]int{"": 2, "tmux": 2, newer: 0} {
		u, err := NewUnserved(ctx, w.Root, w.State, l, j, team, NoService)
		if err != nil {
			t.Fatal(err)
		}
		list, err := u.Attention(ctx)
		if err != nil {
			t.Fatal(err)
		}
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

func BenchmarkNoPane(b *testing.B) {
	watch := unregistered(b)
	b.ReportAllocs()
	for b.Loop() {
		watch.look(context.Background())
	}
}

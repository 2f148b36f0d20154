package server

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
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
	s := &Server{opts: Options{Root: w.Root, State: w.State}, log: slog.New(slog.DiscardHandler), panes: pane.New(pane.Options{Root: w.Root, Ledger: l, State: w.State})}
	s.statuses = &statusCache{Server: s, dirty: make(chan struct{}, 1)}
	watch := &paneWatch{Server: s}
	old := time.Now().Add(-time.Minute)
	for _, name := range []string{"ledger.db", "ledger.db-wal"} {
		if err := os.Chtimes(filepath.Join(w.State, name), old, old); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	watch.look(t.Context())
	if watch.list != nil || watch.news != 0 {
		t.Fatalf("seen without a pane: %+v", watch.list)
	}
	return watch
}

// While no pane is registered, no program is run, and the ledger is not even read.
func TestNoPaneCostsNothing(t *testing.T) {
	t.Parallel()
	watch := unregistered(t)
	watch.panes = nil // so that using it panics
	watch.look(t.Context())
	if len(watch.statuses.dirty) != 0 {
		t.Error("the statuses are read again")
	}
}

func BenchmarkNoPane(b *testing.B) {
	watch := unregistered(b)
	b.ReportAllocs()
	for b.Loop() {
		watch.look(context.Background())
	}
}

package attention

import (
	"path/filepath"
	"testing"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/status"
	"teambridge/teams/teamstest"
)

// world is a Claude directory with its ledger and journal.
type world struct {
	*teamstest.Fixture
	Options
}

func open(t testing.TB, f *teamstest.Fixture) *world {
	t.Helper()
	l, err := ledger.Open(t.Context(), filepath.Join(f.State, "ledger.db"))
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	j, err := journal.Open(t.Context(), filepath.Join(f.State, "journal.db"))
	must(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return &world{f, Options{
		Root: f.Root, State: f.State, Source: status.Source{Journal: j, Ledger: l}, Panes: pane.New(pane.Options{Root: f.Root, Ledger: l, State: f.State}),
	}}
}

// record records the inboxes of all teams.
func (w *world) record(t testing.TB) {
	t.Helper()
	all, err := w.Options.Root.Teams()
	must(t, err)
	for _, l := range all {
		team := w.Team(l.Name)
		c, err := team.Config(t.Context())
		must(t, err)
		names, err := team.Inboxes()
		must(t, err)
		for _, name := range names {
			must(t, w.Journal.Look(t.Context(), inbox.Key(w.Options.Root.Path(), c.Instance(), name)))
		}
	}
}

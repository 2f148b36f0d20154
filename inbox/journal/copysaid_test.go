package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
)

// The journal has a message to the person once, however often it is observed, and records that it was read.
func TestSaidIsObserved(t *testing.T) {
	t.Parallel()
	l, j := open(t, t.TempDir())
	root := t.TempDir() // without a team, as for a person who has only sessions
	must(t, os.Mkdir(filepath.Join(root, "teams"), 0o700))
	for _, team := range []string{ledger.SessionTeam, "ci@build"} {
		to := inbox.InboxKey{Root: root, Team: team, CreatedAt: ledger.SessionTeamCreated, Inbox: "user"}
		for _, id := range []string{"1", "2"} {
			_, err := l.Person.AddSaid(t.Context(), to, "work", id+team, "hello", "")
			must(t, err)
		}
		want := func(want ...string) {
			t.Helper()
			for range 3 {
				_, err := j.Copy(t.Context(), l)
				must(t, err)
				boxes, err := j.Messages.Occupied(t.Context(), journal.Query{})
				must(t, err)
				must(t, j.Look(t.Context(), boxes...))
			}
			var got []string
			for m, err := range j.Messages.All(t.Context(), journal.Query{Root: root, Team: team, Inbox: "user"}) {
				must(t, err)
				got = append(got, fmt.Sprint(m.ID(), " ", m.From, " ", m.Row.Read))
			}
			if !slices.Equal(got, want) {
				t.Errorf("the journal has %q, want %q", got, want)
			}
		}
		want("1"+team+" work false", "2"+team+" work false")
		_, err := l.Person.ReadSaid(t.Context(), root, "1"+team)
		must(t, err)
		want("1"+team+" work true", "2"+team+" work false")
	}
}

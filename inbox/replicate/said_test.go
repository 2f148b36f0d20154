package replicate

import (
	"fmt"
	"slices"
	"testing"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
)

// The journal has a message to the person once, and learns that it was read.
func TestSaidIsObserved(t *testing.T) {
	t.Parallel()
	l, j := open(t, t.TempDir())
	to := ledger.InboxKey{Root: "/r", Team: ledger.SessionTeam, CreatedAt: ledger.SessionTeamCreated, Inbox: "user"}
	for _, id := range []string{"said-1", "said-2"} {
		_, err := l.AddSaid(t.Context(), to, "work", id, "hello", "")
		must(t, err)
	}
	want := func(want ...string) {
		t.Helper()
		for range 2 {
			_, err := Copy(t.Context(), l, j)
			must(t, err)
		}
		var got []string
		for m, err := range j.Messages(t.Context(), journal.Query{Root: "/r", Team: ledger.SessionTeam, Inbox: "user"}) {
			must(t, err)
			got = append(got, fmt.Sprint(m.ID(), " ", m.From, " ", m.Row.Read))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the journal has %q, want %q", got, want)
		}
	}
	want("said-1 work false", "said-2 work false")
	_, err := l.ReadSaid(t.Context(), "/r", "said-1")
	must(t, err)
	want("said-1 work true", "said-2 work false")
}

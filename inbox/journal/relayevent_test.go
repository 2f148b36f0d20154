package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
)

// copyEvents copies the events that the journal does not have, and returns how many changed something.
func copyEvents(t *testing.T, j *Journal, list ...ledger.Event) int {
	t.Helper()
	after, err := j.RelayEvents.Copied(t.Context())
	must(t, err)
	n, err := j.RelayEvents.CopyEvents(t.Context(), &after, list...)
	must(t, err)
	return n
}

func anEvent(n int64, delivery string, state ledger.DeliveryState) ledger.Event {
	return ledger.Event{
		N: n, InboxKey: inbox.Key(root, blue(), "bob"), At: at(float64(n)), Delivery: delivery, ID: "id-" + delivery, From: "alice", State: state,
	}
}

func events(t *testing.T, j *Journal, q Query) string {
	t.Helper()
	var list []string
	for e, err := range j.RelayEvents.All(t.Context(), q) {
		must(t, err)
		list = append(list, fmt.Sprintf("%d %s %s", e.Seq, e.Delivery, e.State))
	}
	return strings.Join(list, ", ")
}

// Each event is recorded once, however often and in whatever parts it is copied, in one order with all other changes.
// An event with another time is another event.
func TestRelayedOnce(t *testing.T) {
	t.Parallel()
	j := mustOpen(t, filepath.Join(t.TempDir(), "journal.db"))
	record := func(want int, list ...ledger.Event) {
		t.Helper()
		if got := copyEvents(t, j, list...); got != want {
			t.Errorf("%d recorded, want %d", got, want)
		}
	}
	claimed, written, done := anEvent(3, "d", "claimed"), anEvent(4, "d", "written"), anEvent(9, "d", "done")
	elsewhere := claimed
	elsewhere.At = at(3.5)
	record(1, claimed)
	observe(t, j, look(t, 1, row("a")))
	record(1, claimed, written)
	record(0, claimed, written)
	record(1, written, done)
	record(0)
	record(1, elsewhere)
	list, err := j.Messages.Changes(t.Context(), 0, 100)
	must(t, err)
	wantChanges(t, list, "1 relay d claimed, 2 appeared a#1, 3 relay d written, 4 relay d done, 5 relay d claimed")
	want := RelayEvent{Seq: 1, InboxKey: claimed.InboxKey, At: at(3), Delivery: "d", ID: "id-d", From: "alice", State: "claimed", N: 3}
	if diff := cmp.Diff(want, list[0].RelayEvent); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	if got, err := j.RelayEvents.Copied(t.Context()); got != (Copied{3, at(3.5)}) || err != nil {
		t.Errorf("copied up to %v, %v", got, err)
	}
	if n, err := j.RelayEvents.CopyEvents(t.Context(), &Copied{9, at(9)}, anEvent(11, "d", "done")); n != 0 || err != nil {
		t.Errorf("after what another process has copied: %d, %v", n, err)
	}

	other := anEvent(10, "e", "failed")
	other.Inbox, other.From = "carol", "dave"
	record(1, other)
	for q, want := range map[Query]string{
		{Inbox: "carol"}:           "6 e failed",
		{From: "dave"}:             "6 e failed",
		{ID: "id-d", After: 3}:     "4 d done, 5 d claimed",
		{Before: 4, Newest: true}:  "3 d written, 1 d claimed",
		{Since: at(9)}:             "4 d done, 6 e failed",
		{Until: at(4)}:             "1 d claimed, 5 d claimed",
		{Limit: 1}:                 "1 d claimed",
		{Team: "red"}:              "",
		{Root: root, Team: "blue"}: "1 d claimed, 3 d written, 4 d done, 5 d claimed, 6 e failed",
	} {
		if got := events(t, j, q); got != want {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
}

// Events are pruned by age, and with the oldest messages by size. They are not copied again after that, and a reader
// that has not seen them gets ErrPruned.
func TestPruneForgetsRelayed(t *testing.T) {
	t.Parallel()
	j := mustOpen(t, filepath.Join(t.TempDir(), "journal.db"))
	list := []ledger.Event{anEvent(1, "d", "claimed"), anEvent(2, "d", "done"), anEvent(30, "e", "claimed")}
	copyEvents(t, j, list...)
	p, err := j.Prune(t.Context(), at(20), 0)
	must(t, err)
	if got := events(t, j, Query{}); p.RelayEvents != 2 || got != "3 e claimed" {
		t.Errorf("%d forgotten, left %q", p.RelayEvents, got)
	}
	if n := copyEvents(t, j, list[2]); n != 0 {
		t.Errorf("recorded %d again", n)
	}
	if _, err := j.Messages.Changes(t.Context(), 1, 10); !errors.Is(err, ErrPruned) {
		t.Errorf("changes after what was forgotten: %v", err)
	}
	left, err := j.Messages.Changes(t.Context(), 2, 10)
	must(t, err)
	wantChanges(t, left, "3 relay e claimed")
	p, err = j.Prune(t.Context(), at(0), 1)
	must(t, err)
	if p.RelayEvents != 1 || events(t, j, Query{}) != "" {
		t.Errorf("by size: %+v, left %q", p, events(t, j, Query{}))
	}
}

func TestExportRelayed(t *testing.T) {
	t.Parallel()
	j := mustOpen(t, filepath.Join(t.TempDir(), "journal.db"))
	copyEvents(t, j, anEvent(1, "d", "claimed"))
	observe(t, j, look(t, 1, row("a")))
	failed := anEvent(2, "d", "failed")
	failed.Reason = "<too large>"
	copyEvents(t, j, failed)
	for _, newest := range []bool{false, true} {
		var out strings.Builder
		must(t, j.Export(t.Context(), &out, Query{Newest: newest}))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 {
			t.Fatalf("exported %q", lines)
		}
		if newest {
			lines[0], lines[2] = lines[2], lines[0]
		}
		for i, want := range []string{`"id":"id-d","relay":{"state":"claimed","at":"`, `"row":{`, `"relay":{"state":"failed","reason":"<too large>",`} {
			if !strings.HasPrefix(lines[i], fmt.Sprintf(`{"seq":%d,`, i+1)) || !strings.Contains(lines[i], want) {
				t.Errorf("line %d is %s, want %s", i, lines[i], want)
			}
		}
	}
}

// The receipt of a message that was sent from here is seen once a relay gave it to the agent. A relayed message from
// another sender has no receipt.
func TestSeenByARelayedAgent(t *testing.T) {
	t.Parallel()
	for state, want := range map[ledger.DeliveryState]bool{"claimed": false, "written": false, "accepted": true, "cut": true, "done": true, "failed": false, "taken_by_agent": false} {
		j := newJournal(t)
		_, err := j.Receipts.Verified(t.Context(), aKey("id-d"), at(1))
		must(t, err)
		copyEvents(t, j, anEvent(2, "d", state), anEvent(3, "e", state))
		r, _, err := j.Receipts.Receipt(t.Context(), aKey("id-d"))
		if err != nil || r.State != inbox.Unconsumed || want != r.SeenAt.Equal(at(2)) || want == r.SeenAt.IsZero() {
			t.Errorf("%s: %+v, %v", state, r, err)
		}
		if r, found, err := j.Receipts.Receipt(t.Context(), aKey("id-e")); err != nil || found {
			t.Errorf("%s: of somebody else: %+v, %v", state, r, err)
		}
	}
}

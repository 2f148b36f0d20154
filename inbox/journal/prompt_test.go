package journal

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/sqlite"
)

// wordsOf returns the event that claims a person's prompt.
func wordsOf(n int64, delivery, text string) ledger.Event {
	e := ofPerson(n, delivery, "claimed")
	e.Text = text
	return e
}

func ofPerson(n int64, delivery string, state ledger.DeliveryState) ledger.Event {
	e := anEvent(n, delivery, state)
	e.Person, e.From = true, "user"
	return e
}

// A person's prompt is a message, once, and its receipt has its later states.
func TestSaid(t *testing.T) {
	t.Parallel()
	j := mustOpen(t, filepath.Join(t.TempDir(), "journal.db"))
	relayed := func(list ...ledger.Event) {
		t.Helper()
		copyEvents(t, j, list...)
	}
	observe(t, j, look(t, 1, row("a")))
	words := wordsOf(2, "d", "hello")
	relayed(words, ofPerson(3, "d", "written"))
	relayed(words)
	observe(t, j, look(t, 4, row("a")), look(t, 5, row("a"), row("b")))
	relayed(ofPerson(6, "d", "accepted"), ofPerson(7, "d", "done"))
	list, err := j.Messages.Changes(t.Context(), 0, 100)
	must(t, err)
	wantChanges(t, list, "1 appeared a#1, 2 appeared hello#1, 3 relay d claimed, 5 relay d written, 6 appeared b#1, "+
		"7 relay d accepted, 9 consumed id-d, 10 relay d done")
	got := messages(t, j, Query{ID: "id-d"})
	want := Record{
		Seq: 2, InboxKey: inbox.Key(root, blue(), "bob"), Row: file(t, `{"from":"user","text":"hello","timestamp":"`+at(2).Format("2006-01-02T15:04:05.000Z")+`","type":"message","messageId":"id-d"}`)[0], Occurrence: 1, FirstSeen: at(2), GoneAt: at(2), Prompt: "d",
	}
	if diff := cmp.Diff([]Record{want}, got); diff != "" {
		t.Errorf("what was said (-want +got):\n%s", diff)
	}
	if r := list[6].Receipt; !r.VerifiedAt.Equal(at(2)) || !r.ConsumedAt.Equal(at(6)) || !r.SeenAt.Equal(at(6)) {
		t.Errorf("receipt %+v", r)
	}
	if hits := search(t, j, "hello", Query{}); len(hits) != 1 || hits[0].Prompt != "d" {
		t.Errorf("found %+v", hits)
	}
	var out strings.Builder
	must(t, j.Export(t.Context(), &out, Query{ID: "id-d"}))
	if !strings.Contains(out.String(), `"said":"d"`) {
		t.Errorf("exported %s", &out)
	}
	sound(t, j)
}

// A prompt that ends before the agent took it is lost, with the reason. A second try that succeeds makes the receipt
// consumed, and no second message. An end after that is no loss.
func TestSaidAndLost(t *testing.T) {
	t.Parallel()
	j := mustOpen(t, filepath.Join(t.TempDir(), "journal.db"))
	failed := ofPerson(3, "d", "failed")
	failed.Reason = "agent died " + strings.Repeat("x", 2*sqlite.MaxName)
	again := wordsOf(4, "d", "hello")
	record := func(list ...ledger.Event) Receipt {
		t.Helper()
		copyEvents(t, j, list...)
		r, _, err := j.Receipts.Receipt(t.Context(), aKey("id-d"))
		must(t, err)
		return r
	}
	if r := record(wordsOf(2, "d", "hello"), failed); r.State != inbox.Lost || !strings.HasPrefix(r.Reason, "agent died") {
		t.Errorf("failed: %+v", r)
	}
	if r := record(again, ofPerson(5, "d", "accepted")); r.State != inbox.Consumed {
		t.Errorf("tried again: %+v", r)
	}
	if r := record(ofPerson(6, "d", "cancelled")); r.State != inbox.Consumed {
		t.Errorf("interrupted: %+v", r)
	}
	if n := len(messages(t, j, Query{})); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
	copyEvents(t, j, wordsOf(7, "e", "x"), ofPerson(8, "e", "dropped"))
	if r, _, err := j.Receipts.Receipt(t.Context(), aKey("id-e")); err != nil || r.State != inbox.Lost || r.Reason != "dropped" {
		t.Errorf("dropped: %+v, %v", r, err)
	}
}

// A prompt is pruned like a message, and a reader that has not seen it gets ErrPruned.
func TestPruneForgetsSaid(t *testing.T) {
	t.Parallel()
	j := mustOpen(t, filepath.Join(t.TempDir(), "journal.db"))
	copyEvents(t, j, wordsOf(2, "d", "hello"))
	// Only the message is pruned, so that no other change causes ErrPruned.
	_, err := j.drop(t.Context(), new(Pruned), pruneMessages, at(10).UnixMicro(), 10)
	must(t, err)
	if _, err := j.Messages.Changes(t.Context(), 0, 10); !errors.Is(err, ErrPruned) {
		t.Errorf("changes before what was forgotten: %v", err)
	}
	if n := number(t, j, "SELECT count(*) FROM messages WHERE prompt<>''"); n != 0 {
		t.Errorf("%d are left", n)
	}
	sound(t, j)
}

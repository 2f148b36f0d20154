package journal_test

import (
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
)

// The events of messages to a pane are copied, and change their receipts. Enter alone proves nothing; a message that
// may have been sent is unknown, not lost.
func TestPaneMessagesAreCopied(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l, j := open(t, t.TempDir())
	pane, err := l.Panes.Add(ctx, ledger.Pane{
		InboxKey: inbox.InboxKey{Root: "/r", Inbox: "build"}, Socket: "/tmp/tmux", Server: 1, ID: "%1", PID: 2, Profile: "claude",
	}, false)
	must(t, err)
	put := func(id string) {
		t.Helper()
		_, _, err := l.PaneMessages.Add(ctx, ledger.PaneMessage{Policy: "queued", Delivery: ledger.Delivery{
			UUID: id, InboxKey: pane.InboxKey, Person: true, ID: id, From: "user", Raw: []byte("text of " + id),
		}}, [32]byte{})
		must(t, err)
	}
	paste := func(id string) {
		t.Helper()
		must(t, l.PaneMessages.PasteFrame(ctx, ledger.Frame{UUID: "frame of " + id, InboxKey: pane.InboxKey, Kind: ledger.FrameMessage, Bytes: []byte(id)}, id))
	}
	// check copies, and compares the last event and the receipt of a message.
	check := func(id, state, reason string, want inbox.Fate, seen bool) {
		t.Helper()
		copyAgain(t, l, j)
		var last journal.RelayEvent
		for e, err := range j.RelayEvents.All(ctx, journal.Query{ID: id}) {
			must(t, err)
			last = e
		}
		if last.State != state || last.Reason != reason || last.Delivery != id {
			t.Errorf("%s: the last event is %q %q of %s, want %q %q", id, last.State, last.Reason, last.Delivery, state, reason)
		}
		r, found, err := j.Receipts.Receipt(ctx, inbox.SendKey{InboxKey: inbox.InboxKey{Root: "/r", Team: pane.Team, CreatedAt: pane.CreatedAt, Inbox: "build"}, ID: id})
		must(t, err)
		if !found || r.State != want || r.SeenAt.IsZero() == seen {
			t.Errorf("%s after %q: receipt %v %q, seen at %v; want %q, seen: %v", id, state, found, r.State, r.SeenAt, want, seen)
		}
	}

	put("a")
	check("a", "claimed", "", inbox.Unconsumed, false)
	for range 2 { // the second copy changes nothing
		must(t, l.PaneMessages.Hold(ctx, "a", "draft", "somebody types", time.Now()))
		check("a", "held", "somebody types", inbox.Unconsumed, false)
	}
	var held int
	for e, err := range j.RelayEvents.All(ctx, journal.Query{ID: "a"}) {
		must(t, err)
		if e.State == "held" {
			held++
		}
	}
	if held != 1 {
		t.Errorf("%d events say that it is held for the same reason", held)
	}
	paste("a")
	check("a", "written", "", inbox.Unconsumed, false)
	must(t, l.Frames.Advance(ctx, "frame of a", ledger.Accepted, ""))
	check("a", "accepted", "", inbox.Unconsumed, false)
	must(t, l.PaneMessages.ConfirmFrame(ctx, "frame of a", "", ledger.TaskSent, ""))
	check("a", "done", "", inbox.Consumed, false)
	must(t, l.PaneMessages.TaskGiven(ctx, "a", time.Time{}, "/t.jsonl"))
	check("a", "given", "", inbox.Consumed, true)
	_, err = l.PaneMessages.EndTasks(ctx, pane.InboxKey, ledger.TaskEnd{Answer: "all good"}, "a")
	must(t, err)
	check("a", "finished", "", inbox.Consumed, true)
	wantTexts(t, j, "text of a", "all good")

	for id, want := range map[string]inbox.Fate{"b": inbox.Unknown, "c": inbox.Lost} {
		put(id)
		paste(id)
		reason := map[string]string{"b": "unknown: nothing shows it", "c": "not sent: the pane is gone"}[id]
		must(t, l.Frames.Advance(ctx, "frame of "+id, ledger.Failed, reason))
		check(id, "failed", reason, want, false)
		must(t, l.Deliveries.Retry(ctx, id))
		check(id, "claimed", "", inbox.Unconsumed, false)
		must(t, l.Deliveries.Drop(ctx, id))
		check(id, "dropped", "", inbox.Lost, false)
	}
}

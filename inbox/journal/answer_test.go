package journal

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
)

// answerTo returns the event of an agent's answer in the turn of a frame.
func answerTo(n int64, frame, id, text string) ledger.Event {
	return ledger.Event{
		N: n, InboxKey: inbox.Key(root, blue(), "bob"), At: at(float64(n)), Answer: frame,
		Row: []byte(`{"from":"bob","text":"` + text + `","timestamp":"2026-01-01T00:00:00.000Z","type":"answer","messageId":"` + frame + `","inReplyTo":["` + id + `"]}`),
	}
}

// An agent's answer is a message, once for each frame, and no row of its inbox.
func TestAnswer(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	observe(t, j, look(t, 1, row("a")))
	protocol := answerTo(4, "g", "n", `{\"type\":\"idle_notification\",\"idleReason\":\"available\"}`)
	copyEvents(t, j, wordsOf(2, "d", "hello"), answerTo(3, "f", "id-d", "the needle"), protocol)
	copyEvents(t, j, answerTo(3, "f", "id-d", "the needle"), protocol)
	copyEvents(t, j, answerTo(3, "f", "id-d", "the needle"))
	observe(t, j, look(t, 5, row("a")), look(t, 6, row("a"), row("b")))
	list, err := j.Messages.Changes(t.Context(), 0, 100)
	must(t, err)
	wantChanges(t, list[:5], "1 appeared a#1, 2 appeared hello#1, 3 relay d claimed, 4 verified id-d, 5 appeared the needle#1")
	if len(list) != 7 || list[6].Message.Text != "b" {
		t.Errorf("changes %+v", list)
	}
	var got []string
	for h, err := range j.Messages.Search(t.Context(), "needle", Query{Inbox: "bob", From: "bob"}) {
		must(t, err)
		got = append(got, h.Answer+" "+h.Kind()+" to "+strings.Join(h.InReplyTo(), ","))
	}
	if diff := cmp.Diff([]string{"f answer to id-d"}, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if m := list[5].Message; m.Answer != "g" || m.Noise() || m.Kind() != KindAnswer || m.Truncated() {
		t.Errorf("an answer that looks like an object of the protocol is %s, noise %v", m.Kind(), m.Noise())
	}
	if m, found, err := j.Messages.AnswerTo(t.Context(), "f"); err != nil || !found || m.Text != "the needle" || m.Answer != "f" {
		t.Errorf("the answer to f is %+v, %v, %v", m, found, err)
	}
	if _, found, err := j.Messages.AnswerTo(t.Context(), "no frame"); err != nil || found {
		t.Errorf("there is an answer to no frame, %v", err)
	}
	sound(t, j)
	_, err = j.drop(t.Context(), new(Pruned), pruneMessages, at(10).UnixMicro(), 10)
	must(t, err)
	if n := number(t, j, "SELECT count(*) FROM messages WHERE answer<>''"); n != 0 {
		t.Errorf("%d answers are left", n)
	}
	if _, err := j.Messages.Changes(t.Context(), 5, 10); !errors.Is(err, ErrPruned) {
		t.Errorf("changes before what was forgotten: %v", err)
	}
}

// A row of an inbox file is no answer, even if it claims to be one.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	observe(t, j, look(t, 1, row("a", `"type":"answer"`, `"inReplyTo":["x"]`, `"truncated":true`)))
	for _, m := range messages(t, j, Query{}) {
		if m.Answer != "" || m.Kind() != "message" || m.InReplyTo() != nil || m.Truncated() {
			t.Errorf("it counts as %+v", m)
		}
	}
}

// A renamed inbox keeps its messages, and the messages that its owner wrote get the new name. Records that another
// process has made under the new name are joined with them.
func TestRename(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	k := inbox.Key(root, blue(), "bob")
	for n, row := range []string{"a", "b"} {
		copyEvents(t, j, answerTo(int64(n+1), row, "m", "the needle "+row))
	}
	record(t, j, said("e1", 4, "done"))
	if got := found(search(t, j, "bob", Query{})); got != "2 1" {
		t.Errorf("found %q under the old name, want both", got)
	}
	must(t, j.Messages.Rename(t.Context(), k, "rob"))
	copyEvents(t, j, answerTo(3, "c", "m", "the needle c"))
	must(t, j.Messages.Rename(t.Context(), k, "rob"))
	for _, q := range []Query{{Inbox: "rob"}, {From: "rob"}} {
		var got []string
		for m, err := range j.Messages.All(t.Context(), q) {
			must(t, err)
			got = append(got, m.From+" in "+m.Inbox+": "+m.Text)
		}
		if diff := cmp.Diff([]string{"rob in rob: the needle a", "rob in rob: the needle b", "rob in rob: the needle c"}, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", q, diff)
		}
	}
	for h, err := range j.Messages.Search(t.Context(), "bob", Query{}) {
		must(t, err)
		t.Errorf("under the old name: %+v", h.Record)
	}
	if got := len(search(t, j, "rob", Query{})); got != 3 {
		t.Errorf("%d are found under the new name, want 3", got)
	}
	if was, now := searchEnvelopes(t, j, "bob", EnvelopeQuery{}), searchEnvelopes(t, j, "rob", EnvelopeQuery{}); len(was) != 0 || len(now) != 1 {
		t.Errorf("envelopes are found as %q under the old name, and as %q under the new one", was, now)
	}
	for h, err := range j.Messages.Search(t.Context(), "needle", Query{From: "rob"}) {
		must(t, err)
		if h.Snippet == "" {
			t.Errorf("%s has no snippet", h.Text)
		}
	}
}

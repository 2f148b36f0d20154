package ledger

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answers returns the agents' answers from the events, without their times.
func answers(t *testing.T, l *Ledger) []answer {
	t.Helper()
	list := []answer{}
	for _, e := range events(t, l) {
		if e.Answer == "" {
			continue
		}
		var a answer
		must(t, json.Unmarshal(e.Row, &a))
		if at, err := time.Parse(time.RFC3339, a.Timestamp); err != nil || at.After(e.At) || e.At.Sub(at) > time.Millisecond || e.Answer != a.ID || e.InboxKey != bob {
			t.Errorf("event %+v", e)
		}
		a.Timestamp = ""
		list = append(list, a)
	}
	return list
}

func wantAnswers(t *testing.T, l *Ledger, want ...answer) {
	t.Helper()
	if diff := cmp.Diff(append([]answer{}, want...), answers(t, l)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// An agent's answer is recorded once, with the end of its turn, and with the ids of the messages that it answers.
func TestAnswer(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	typed := anInput("typed")
	typed.ID = ""
	must(t, l.Deliveries.Claim(t.Context(), aRow("a"), aRow("b"), typed))
	must(t, l.Deliveries.Mark(t.Context(), "a", "b"))
	must(t, l.Frames.Commit(t.Context(), aFrame("f"), "a", "b"))
	must(t, l.Frames.Finish(t.Context(), "f", Accepted, "", "too early"))
	wantAnswers(t, l)
	for range 2 {
		must(t, l.Frames.Finish(t.Context(), "f", Done, "", "a <b> & c\n"))
	}
	first := answer{From: bob.Inbox, Text: "a <b> & c\n", Type: "answer", ID: "f", InReplyTo: []string{aRow("a").ID, aRow("b").ID}}
	wantAnswers(t, l, first)

	// A turn that was cut and continued.
	must(t, l.Frames.Commit(t.Context(), aFrame("g"), "typed"))
	must(t, l.Frames.Commit(t.Context(), aNudge("n", "g")))
	must(t, l.Frames.Finish(t.Context(), "n", Done, "", "after all"))
	if s := mustFrame(t, l, "g").State; s != Done {
		t.Errorf("the frame is %s", s)
	}
	second := answer{From: bob.Inbox, Text: "after all", Type: "answer", ID: "n", InReplyTo: []string{"typed"}}
	wantAnswers(t, l, first, second)

	_, err := l.Prune(t.Context(), time.Now().Add(time.Hour))
	must(t, err)
	wantAnswers(t, l)
}

// A turn that failed, was cancelled, or has no text has no answer.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for state, text := range map[DeliveryState]string{Failed: "API Error", Cancelled: "half", Done: ""} {
		l := newLedger(t)
		claimRows(t, l, "a")
		must(t, l.Frames.Commit(t.Context(), aFrame("f"), "a"))
		must(t, l.Frames.Finish(t.Context(), "f", state, "why", text))
		wantAnswers(t, l)
	}
}

// A long answer is cut at the limit, at a whole character, and is marked as cut.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	claimRows(t, l, "a")
	must(t, l.Frames.Commit(t.Context(), aFrame("f"), "a"))
	must(t, l.Frames.Finish(t.Context(), "f", Done, "", strings.Repeat("€", maxAnswer/3+1)))
	got := answers(t, l)
	if len(got) != 1 || !got[0].Truncated || got[0].Text != strings.Repeat("€", maxAnswer/3) {
		t.Errorf("%d answers, %d bytes, truncated %v", len(got), len(got[0].Text), got[0].Truncated)
	}
}

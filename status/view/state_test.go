package view

import (
	"strings"
	"testing"

	"teambridge/status/api"
)

// The words equal those in the last column of the guide's table, which has the codes in the others.
func TestState(t *testing.T) {
	t.Parallel()
	for word, codes := range map[string]string{
		"waiting":  api.Waiting + " " + api.Queued + " " + api.Stored,
		"sent":     api.Verified + " " + api.Received,
		"received": api.Consumed + " " + api.Confirmed,
		"seen":     api.Seen,
		"lost":     api.Lost,
		"not sent": api.NotSent + " " + api.Failed,
		"unknown":  api.Unknown + " " + api.Unconfirmed,
		"dry-run":  api.DryRun,
	} {
		for code := range strings.FieldsSeq(codes) {
			if got := State(code); got != word {
				t.Errorf("%s is %q, want %q", code, got, word)
			}
		}
	}
}

// The state of a message has a word of the guide's table, whether a relay, a pane or another machine has it.
func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state, reason string
		headless      bool
		word, why     string
	}{
		{"claimed", "", true, "waiting", ""},
		{"held", "somebody types", false, "waiting", "somebody types"},
		{"written", "", true, "sent", ""},
		{"written", "", false, "waiting", "it is being delivered"},
		{"accepted", "", true, "seen", ""},
		{"accepted", "", false, "waiting", "it is being delivered"},
		{"cut", "the agent was killed", true, "seen", "its turn was cut off"},
		{"done", "", true, "done", ""},
		{"done", "the transcript has it", false, "received", ""},
		{"given", "", false, "seen", ""},
		{"finished", "", false, "done", ""},
		{"taken_by_agent", "", true, "received", ""},
		{"skipped", "an idle report", true, "not relayed", "an idle report"},
		{"cancelled", "", true, "cancelled", ""},
		{"dropped", "", true, "given up", ""},
		{"failed", "the agent died three times", true, "failed", "the agent died three times"},
		{"failed", "not sent: a draft", false, "not sent", "a draft"},
		{"failed", "the link was removed", false, "not sent", "the link was removed"},
		{"failed", "unknown: its row is gone", true, "unknown", "its row is gone"},
		{"failed", "lost: it was overwritten", false, "lost", "it was overwritten"},
		{"failed", "refused: it is not shared", false, "not sent", "it is not shared"},
		{"stored", "", false, "waiting", ""},
		{"consumed", "", false, "received", ""},
		{"refused", "it is not shared", false, "not sent", "it is not shared"},
	} {
		if got := outcome(c.state, c.reason, c.headless); got.Word != c.word || got.Why != c.why {
			t.Errorf("%s (%q), headless %t: %q (%q), want %q (%q)", c.state, c.reason, c.headless, got.Word, got.Why, c.word, c.why)
		}
	}
}

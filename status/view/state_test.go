package view

import (
	"strings"
	"testing"

	"teambridge/status/api"
)

// The words are those of the guide's table, which has them in the last column, and the codes in the others.
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

package view

import (
	"testing"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/status/api"
)

// The names in package api, which imports nothing of ours, equal those of other packages.
func TestNamesOfTheAPI(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ api, ours string }{
		{api.Verified, mail.Verified},
		{api.Failed, mail.Failed},
		{api.Verified, string(inbox.Unconsumed)},
		{api.Consumed, string(inbox.Consumed)},
		{api.Lost, string(inbox.Lost)},
		{api.Unknown, string(inbox.Unknown)},
		{api.Appeared, string(journal.Appeared)},
		{api.Read, string(journal.Read)},
		{api.Gone, string(journal.Gone)},
	} {
		if c.api != c.ours {
			t.Errorf("the API says %q, we say %q", c.api, c.ours)
		}
	}
}

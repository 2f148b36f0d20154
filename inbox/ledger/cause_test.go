package ledger

import "testing"

// Reasons are stored as text, also in ledgers of earlier versions.
func TestSplitReason(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]struct {
		cause  Cause
		detail string
	}{
		"not sent: it is held: dialog (for 15m0s)": {CauseNotSent, "it is held: dialog (for 15m0s)"},
		"unknown: the link was removed":            {CauseUnknown, "the link was removed"},
		"refused: ":                                {CauseRefused, ""},
		"lost: its hub was wiped":                  {CauseLost, "its hub was wiped"},
		"the agent died: twice":                    {"", "the agent died: twice"},
		"unknown":                                  {"", "unknown"},
		"":                                         {},
	} {
		cause, detail := SplitReason(reason)
		if cause != want.cause || detail != want.detail {
			t.Errorf("%q: got %q and %q, want %q and %q", reason, cause, detail, want.cause, want.detail)
		}
		if cause != "" && cause.Reason(detail) != reason {
			t.Errorf("%q became %q", reason, cause.Reason(detail))
		}
	}
}

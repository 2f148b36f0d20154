package ledger

import "strings"

// A Cause is the certain part of why a delivery failed. The stored reason begins with it: "unknown: …".
type Cause string

// The causes.
const (
	CauseNotSent Cause = "not sent" // the receiver got nothing
	CauseUnknown Cause = "unknown"  // the receiver may have the message
	CauseRefused Cause = "refused"  // another machine does not take it
	CauseLost    Cause = "lost"     // another machine had it, and no longer has it
)

// Reason returns the stored reason of a delivery that failed with this cause.
func (c Cause) Reason(detail string) string { return string(c) + ": " + detail }

// SplitReason splits a stored reason into its cause, or "" without one, and the rest.
func SplitReason(reason string) (Cause, string) {
	if before, detail, ok := strings.Cut(reason, ": "); ok {
		switch c := Cause(before); c {
		case CauseNotSent, CauseUnknown, CauseRefused, CauseLost:
			return c, detail
		}
	}
	return "", reason
}

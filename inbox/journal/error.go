package journal

import (
	"errors"

	"teambridge/inbox/sqlite"
)

// ErrPruned: changes after the given number were pruned, so the rest would have gaps. Start again with the present
// records.
var ErrPruned = errors.New("pruned from the journal")

// Errors of the file that callers distinguish.
var (
	ErrClosed = sqlite.ErrClosed
	ErrBusy   = sqlite.ErrBusy
	ErrMoved  = sqlite.ErrMoved
)

type (
	// Error is a failure of the journal file.
	Error = sqlite.Error
	// ValueError is a part of a record or a query that cannot be used. Nothing was changed.
	ValueError = sqlite.ValueError
)

func invalid(field, reason string) error {
	return &ValueError{Name: "journal", Field: field, Reason: reason}
}

func names(namesAndValues ...string) error { return sqlite.CheckNames("journal", namesAndValues...) }

package journal

import (
	"errors"

	"teambridge/inbox/sqlite"
)

// ErrPruned: changes after the number asked for were pruned, so that what is
// left would have gaps. Start again with what is there now.
var ErrPruned = errors.New("pruned from the journal")

// What a caller decides by if the file itself fails.
var (
	ErrClosed = sqlite.ErrClosed
	ErrBusy   = sqlite.ErrBusy
	ErrMoved  = sqlite.ErrMoved
)

type (
	// Error is a failure of the journal file.
	Error = sqlite.Error
	// ValueError is a part of a record or a question that cannot be used. Nothing was done.
	ValueError = sqlite.ValueError
)

func invalid(field, reason string) error {
	return &ValueError{Name: "journal", Field: field, Reason: reason}
}

func names(namesAndValues ...string) error { return sqlite.CheckNames("journal", namesAndValues...) }

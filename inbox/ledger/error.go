package ledger

import (
	"errors"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Errors that callers distinguish.
var (
	// ErrConflict: the id was used before, with another digest, or the thing exists already.
	ErrConflict = inbox.ErrIDTaken
	// ErrWritten: the message with this id and digest was written before.
	ErrWritten = errors.New("message already written")
	// ErrNoIntent: a message was reported as written without an intent.
	ErrNoIntent = errors.New("no such message intended")
	// ErrHeld: the sender of a row to claim is held.
	ErrHeld = errors.New("the messages of the sender are held")
	// ErrUnknown: no delivery, or no frame, has the uuid.
	ErrUnknown = errors.New("not in the ledger")
)

// Errors of the file that callers distinguish.
var (
	ErrClosed = sqlite.ErrClosed
	ErrBusy   = sqlite.ErrBusy
	ErrMoved  = sqlite.ErrMoved
	ErrFull   = sqlite.ErrFull

	// ErrCorrupt: the file is damaged, or not a database.
	ErrCorrupt = sqlite.ErrCorrupt
)

type (
	// Error is a failure of the ledger file.
	Error = sqlite.Error
	// ValueError is a part of a record that cannot be kept. Nothing was recorded.
	ValueError = sqlite.ValueError
)

func invalid(field, reason string) error {
	return &ValueError{Name: "ledger", Field: field, Reason: reason}
}

func names(namesAndValues ...string) error { return sqlite.CheckNames("ledger", namesAndValues...) }

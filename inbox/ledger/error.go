package ledger

import (
	"errors"

	"teambridge/inbox/sqlite"
)

// What a caller decides by.
var (
	// ErrConflict: the id was used before, with another digest.
	ErrConflict = errors.New("id already used for another message")
	// ErrWritten: the message with this id and digest was written before.
	ErrWritten = errors.New("message already written")
	// ErrNoIntent: a message was reported written that was never intended.
	ErrNoIntent = errors.New("no such message intended")
	// ErrUnknown: no delivery, or no frame, has the uuid.
	ErrUnknown = errors.New("not in the ledger")
)

// What goes wrong with the file itself.
var (
	ErrClosed   = sqlite.ErrClosed
	ErrBusy     = sqlite.ErrBusy
	ErrFull     = sqlite.ErrFull
	ErrCorrupt  = sqlite.ErrCorrupt
	ErrForeign  = sqlite.ErrForeign
	ErrReadOnly = sqlite.ErrReadOnly
	ErrAccess   = sqlite.ErrAccess
	ErrDisk     = sqlite.ErrDisk
)

type (
	// Error is a failure of the ledger file.
	Error = sqlite.Error
	// NewerError: a later version of this program made the file.
	NewerError = sqlite.NewerError
)

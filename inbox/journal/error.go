package journal

import (
	"errors"
	"fmt"
	"strings"

	"teambridge/inbox/sqlite"
)

// ErrPruned: changes after the number asked for were pruned, so that what is
// left would have gaps. Begin anew with what is there now.
var ErrPruned = errors.New("pruned from the journal")

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
	// Error is a failure of the journal file.
	Error = sqlite.Error
	// NewerError: a later version of this program made the file.
	NewerError = sqlite.NewerError
)

// A ValueError is a part of a record or a question that cannot be used. Nothing
// was done.
type ValueError struct {
	Field  string
	Reason string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("journal: %s %s; correct it and try again", e.Field, e.Reason)
}

const maxName = 4 << 10

type field struct{ name, value string }

func names(fields ...field) error {
	for _, f := range fields {
		switch {
		case strings.TrimSpace(f.value) == "":
			return &ValueError{Field: f.name, Reason: "is blank"}
		case len(f.value) > maxName:
			return &ValueError{Field: f.name, Reason: fmt.Sprintf("has %d bytes, over %d", len(f.value), maxName)}
		}
	}
	return nil
}

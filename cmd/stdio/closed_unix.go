//go:build !windows

package stdio

import (
	"errors"
	"syscall"
)

// closedPipe reports whether err is from a write to a pipe without a reader.
func closedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

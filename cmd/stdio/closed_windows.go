package stdio

import (
	"errors"
	"syscall"
)

// Windows' errors for a pipe that was closed, or is being closed.
const (
	errorBrokenPipe syscall.Errno = 109
	errorNoData     syscall.Errno = 232
)

// closedPipe reports whether err is from a write to a pipe without a reader.
func closedPipe(err error) bool {
	return errors.Is(err, errorBrokenPipe) || errors.Is(err, errorNoData)
}

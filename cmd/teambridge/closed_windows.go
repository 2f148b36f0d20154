package main

import (
	"errors"
	"syscall"
)

// What Windows says of a pipe that was closed, or is being closed.
const (
	errorBrokenPipe syscall.Errno = 109
	errorNoData     syscall.Errno = 232
)

// closedPipe reports whether err is that of a write to a pipe that nobody reads any more.
func closedPipe(err error) bool {
	return errors.Is(err, errorBrokenPipe) || errors.Is(err, errorNoData)
}

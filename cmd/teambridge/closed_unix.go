//go:build !windows

package main

import (
	"errors"
	"syscall"
)

// closedPipe reports whether err is that of a write to a pipe that nobody reads any more.
func closedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

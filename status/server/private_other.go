//go:build !linux

package server

import "syscall"

// private does nothing: there the socket gets its mode when it has its name. The
// state directory, which is the place by default, is closed to others all the time.
func private(string, string, syscall.RawConn) error { return nil }

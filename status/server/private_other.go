//go:build !linux

package server

import "syscall"

// private does nothing on these systems: the socket gets its mode after its name. Its default place, the state
// directory, is closed to others anyway.
func private(string, string, syscall.RawConn) error { return nil }

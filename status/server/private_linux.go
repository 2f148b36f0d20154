package server

import "syscall"

// private makes a socket that only this user can open, before it has a name: on
// Linux the name takes over the mode. Until a chmod others could open it.
func private(network, _ string, c syscall.RawConn) error {
	if network != "unix" {
		return nil
	}
	var chmod error
	if err := c.Control(func(fd uintptr) { chmod = syscall.Fchmod(int(fd), 0o600) }); err != nil {
		return err
	}
	return chmod
}

package server

import "syscall"

// private sets the mode of a socket before it gets its name, which takes over the mode on Linux. With a chmod of the
// name, others could open the socket until then.
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

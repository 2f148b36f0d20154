//go:build linux || darwin

package peer

import "net"

// peerOf returns the process at the other end of a connection; 0 if that is not known, as when it
// has closed its end.
func peerOf(c *net.UnixConn) (pid int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if p, err := peerPID(int(fd)); err == nil {
			pid = p
		}
	})
	return pid
}

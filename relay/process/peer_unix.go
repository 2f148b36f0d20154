//go:build linux || darwin

package process

import "net"

// Peer returns the process at the other end of a connection. It is 0 if unknown, for example after that
// process has closed its end.
func Peer(c *net.UnixConn) (pid int) {
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

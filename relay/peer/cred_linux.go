package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerOf returns the process at the other end of a connection; 0 if that is not known.
func peerOf(c *net.UnixConn) (pid int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerOf returns the process at the other end of a connection; 0 if that is not known, as when it has closed its end.
func peerOf(c *net.UnixConn) (pid int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if is, err := unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID); err == nil {
			pid = is
		}
	})
	return pid
}

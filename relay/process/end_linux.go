package process

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// OnEnd calls ended once a process has ended, unless stop is called before. It fails if there is no such process, and
// where the kernel does not report ends: before Linux 5.10, and on other systems. See pidfd_open(2).
func OnEnd(pid int, ended func()) (stop func(), err error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	if err := f.SetReadDeadline(time.Time{}); err != nil { // the runtime cannot wait for it
		return nil, closed(f, err)
	}
	c, err := f.SyscallConn()
	if err != nil {
		return nil, closed(f, err)
	}
	go func() {
		err := c.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0 && err == nil
		})
		_ = f.Close()
		if err == nil { // otherwise stop has closed it
			ended()
		}
	}()
	return func() { _ = f.Close() }, nil
}

func closed(f *os.File, err error) error {
	_ = f.Close()
	return err
}

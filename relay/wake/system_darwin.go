package wake

import (
	"context"
	"os"
	"syscall"
)

// Supported reports whether this system has the waiting hook.
const Supported = true

// unread always returns 0: the number is unknown on macOS.
func unread(*os.File) int32 { return 0 }

// gone reports whether the process of a session has ended, unless another one has its id.
func gone(s Session) bool { return syscall.Kill(s.PID, 0) == syscall.ESRCH }

// Exited waits until a process has ended, and returns true. It returns false if ctx ends first, or if it cannot tell.
func Exited(ctx context.Context, pid int) bool {
	queue, err := syscall.Kqueue()
	if err != nil {
		return false
	}
	done := make(chan bool, 1)
	go func() {
		defer syscall.Close(queue)
		watched := []syscall.Kevent_t{{Ident: uint64(pid), Filter: syscall.EVFILT_PROC, Flags: syscall.EV_ADD | syscall.EV_ONESHOT, Fflags: syscall.NOTE_EXIT}}
		happened := make([]syscall.Kevent_t, 1)
		for {
			n, err := syscall.Kevent(queue, watched, happened, nil)
			if err == syscall.EINTR {
				continue
			}
			done <- n > 0 || err == syscall.ESRCH // it ended before
			return
		}
	}()
	select {
	case <-ctx.Done(): // the goroutine ends with this process
		return false
	case exited := <-done:
		return exited
	}
}

package wake

import (
	"context"
	"os"
	"syscall"
)

// Supported says that this system has the waiting hook.
const Supported = true

// unread is not known here.
func unread(*os.File) int32 { return 0 }

// gone reports whether the process of a session has ended, unless another one has its id.
func gone(s Session) bool { return syscall.Kill(s.PID, 0) == syscall.ESRCH }

// Exited waits until a process has ended, and returns true. It returns false when ctx ends, and if that cannot be seen.
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
			done <- n > 0 || err == syscall.ESRCH // it had ended
			return
		}
	}()
	select {
	case <-ctx.Done(): // this process ends with it
		return false
	case exited := <-done:
		return exited
	}
}

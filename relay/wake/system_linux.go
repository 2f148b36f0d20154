package wake

import (
	"context"
	"os"
	"syscall"
	"unsafe"

	"teambridge/relay/process"
)

// Supported reports whether this system has the waiting hook.
const Supported = true

// unread returns how many bytes in a pipe or a Unix socket its reader has not read yet; 0 if that is unknown.
func unread(f *os.File) (n int32) {
	for _, request := range []uintptr{syscall.TIOCOUTQ, syscall.TIOCINQ} { // of a socket, of a pipe
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&n))); errno == 0 {
			return n
		}
	}
	return 0
}

// gone reports whether the process of a session has ended.
func gone(s Session) bool {
	now := process.Ticks(s.PID)
	return now == "" || s.Start != "" && now != s.Start
}

// Exited does not wait. On Linux, the reader of standard error shows the end of a session: it ends with the session.
func Exited(context.Context, int) bool { return false }

package wake

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// Supported says that this system has the waiting hook.
const Supported = true

// Start returns when a process started, field 22 of /proc/<pid>/stat; "" if it does not run, as a zombie does not.
func Start(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name, in parentheses, may hold some itself
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}

// unread returns how many bytes that were written to a pipe or a Unix socket its reader has not taken yet; 0 if that is not
// known.
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
	now := Start(s.PID)
	return now == "" || s.Start != "" && now != s.Start
}

// Exited does not wait: here the reader of standard error tells, which is gone with the session.
func Exited(context.Context, int) bool { return false }

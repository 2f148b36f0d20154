package process

import (
	"errors"
	"strconv"
	"syscall"
)

const (
	queryLimited = 0x1000 // PROCESS_QUERY_LIMITED_INFORMATION
	stillActive  = 259    // the exit code of a running process
)

// started returns when a process started, in nanoseconds since 1970. there is false if it is not running.
func started(pid int) (start string, there bool) {
	h, err := syscall.OpenProcess(queryLimited, false, uint32(pid))
	if err != nil {
		return "", errors.Is(err, syscall.ERROR_ACCESS_DENIED) // it belongs to another user
	}
	defer syscall.CloseHandle(h)
	var code uint32
	// A process that has ended can be opened as long as any handle to it is open.
	if err := syscall.GetExitCodeProcess(h, &code); err == nil && code != stillActive {
		return "", false
	}
	var created, exited, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return "", true
	}
	return strconv.FormatInt(created.Nanoseconds(), 10), true
}

// Ticks returns "": this system does not report it.
func Ticks(int) string { return "" }

// Parent returns 0: it is not implemented on Windows.
func Parent(int) int { return 0 }

// Stopped returns false: no signal stops a process on Windows.
func Stopped(int) bool { return false }

// Identify returns the identity of a child that was just started. Its starter must still have a handle of it.
func Identify(pid int) Predecessor {
	start, _ := started(pid)
	if start == "" {
		start = "ended"
	}
	return Predecessor{PID: pid, Group: pid, Start: start}
}

package process

import (
	"errors"
	"strconv"
	"syscall"
)

const (
	queryLimited = 0x1000 // PROCESS_QUERY_LIMITED_INFORMATION
	stillActive  = 259    // the exit code of a process that runs
)

// started tells whether a process runs, and when it started, in nanoseconds since 1970.
func started(pid int) (start string, there bool) {
	h, err := syscall.OpenProcess(queryLimited, false, uint32(pid))
	if err != nil {
		return "", errors.Is(err, syscall.ERROR_ACCESS_DENIED) // another user's
	}
	defer syscall.CloseHandle(h)
	var code uint32
	// One that has ended can be opened for as long as somebody has it open.
	if err := syscall.GetExitCodeProcess(h, &code); err == nil && code != stillActive {
		return "", false
	}
	var created, exited, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return "", true
	}
	return strconv.FormatInt(created.Nanoseconds(), 10), true
}

// Ticks is not known here.
func Ticks(int) string { return "" }

// Parent is 0: which process started another is not looked for here.
func Parent(int) int { return 0 }

// Identify identifies a child that has just been started, and whose parent still has a handle.
func Identify(pid int) Predecessor {
	start, _ := started(pid)
	if start == "" {
		start = "ended"
	}
	return Predecessor{PID: pid, Group: pid, Start: start}
}

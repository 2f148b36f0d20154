package teams

import (
	"errors"
	"syscall"
)

// The access that OpenProcess requests, and its error for a pid without a process.
const (
	processQueryLimitedInformation = 0x1000
	errorInvalidParameter          = syscall.Errno(87)
)

// stateOf reports whether a process of this machine is alive. Its start time is not known here.
func stateOf(pid int, _ string) Liveness {
	h, err := syscall.OpenProcess(processQueryLimitedInformation, false, uint32(pid))
	if errors.Is(err, errorInvalidParameter) {
		return Gone
	}
	if err == nil {
		syscall.CloseHandle(h)
	}
	return Unknown
}

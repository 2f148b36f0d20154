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

func (p *LeadProcess) probe() Liveness {
	if p.foreign() {
		return Unknown
	}
	h, err := syscall.OpenProcess(processQueryLimitedInformation, false, uint32(p.PID))
	if errors.Is(err, errorInvalidParameter) {
		return Gone
	}
	if err == nil {
		syscall.CloseHandle(h)
	}
	return Unknown
}

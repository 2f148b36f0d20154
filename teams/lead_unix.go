//go:build unix && !linux

package teams

import (
	"errors"
	"syscall"
)

// stateOf reports whether a process of this machine is alive. Its start time is not known here.
func stateOf(pid int, _ string) Liveness {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return Gone
	}
	return Unknown
}

//go:build unix && !linux

package teams

import (
	"errors"
	"syscall"
)

func (p *LeadProcess) probe() Liveness {
	if !p.foreign() && errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH) {
		return Gone
	}
	return Unknown
}

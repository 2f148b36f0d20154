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

// thisProcess says of this process what is in leadProcess: nothing that
// would be known to be so here.
func thisProcess() (space, start string) { return "", "" }

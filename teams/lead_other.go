//go:build !linux

package teams

import "strings"

func (p *LeadProcess) probe() Liveness {
	if strings.Contains(p.PidSpace, "#pid:[") { // it was written on Linux
		return Unknown
	}
	return stateOf(p.PID, p.ProcStart)
}

//go:build !linux

package teams

import "strings"

// foreign reports whether PidSpace was written on Linux.
func (p *LeadProcess) foreign() bool { return strings.Contains(p.PidSpace, "#pid:[") }

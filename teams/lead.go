package teams

import (
	"time"
)

// LeadProcess is the process that leads a team. Claude Code records it from 2.1.311 on.
type LeadProcess struct {
	PID       int       // 0 if the file has no usable pid
	PidSpace  string    // on Linux "<host name>#pid:[<inode of the pid namespace>]"
	ClaimedAt time.Time // UTC, to the millisecond
	ProcStart string    // on Linux field 22 of /proc/<pid>/stat: clock ticks since boot
}

// Liveness is the state of a process, as far as it is known.
type Liveness int

// A process is Unknown if it cannot be checked: it is in another pid namespace or on another host, or the
// system does not report when it started.
const (
	Unknown Liveness = iota
	Alive
	Gone
)

func (l Liveness) String() string { return [...]string{"unknown", "alive", "gone"}[l] }

// Liveness reports whether the lead's process is alive. On Linux it is Alive if a process has this pid and
// start time, and Gone if none has or if it is a zombie; both only if PidSpace is ours. Other systems have
// other start times; there, a missing pid is Gone, and an existing one Unknown. A nil LeadProcess is Unknown.
func (p *LeadProcess) Liveness() Liveness {
	if p == nil || p.PID <= 0 {
		return Unknown
	}
	return p.probe()
}

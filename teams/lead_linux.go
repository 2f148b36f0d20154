package teams

import (
	"errors"
	"os"
	"syscall"

	"teambridge/teams/proc"
)

func (p *LeadProcess) probe() Liveness {
	if space, err := pidSpace(); err != nil || p.PidSpace != space {
		return Unknown
	}
	return stateOf(p.PID, p.ProcStart)
}

// stateOf reports whether a process of this machine is alive.
func stateOf(pid int, start string) Liveness {
	// The signal comes first, because /proc can hide the processes of other users (hidepid).
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return Gone
	}
	now, err := proc.Read(pid)
	switch {
	case err != nil:
		return Unknown
	case now.Ended:
		return Gone
	case start == "":
		return Unknown
	case now.Start != start:
		return Gone
	}
	return Alive
}

// pidSpace names the pid namespace of this process in Claude's form. That form includes the host name,
// because the first namespace of every Linux system has the same number, and hosts can share a home
// directory.
func pidSpace() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	ns, err := proc.Namespace()
	return host + "#" + ns, err
}

// thisProcess returns the pid space and the start time of this process for leadProcess. If they are empty,
// the liveness of the process is unknown.
func thisProcess() (space, start string) {
	space, err := pidSpace()
	if err != nil {
		return "", ""
	}
	now, err := proc.Read(os.Getpid())
	if err != nil {
		return "", ""
	}
	return space, now.Start
}

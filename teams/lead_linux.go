package teams

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

func (p *LeadProcess) probe() Liveness {
	if space, err := pidSpace(); err != nil || p.PidSpace != space {
		return Unknown
	}
	// First, since /proc can hide the processes of other users (hidepid).
	if errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH) {
		return Gone
	}
	state, start, err := stat(p.PID)
	switch {
	case err != nil:
		return Unknown
	case state == "Z" || state == "X":
		return Gone
	case p.ProcStart == "":
		return Unknown
	case start != p.ProcStart:
		return Gone
	}
	return Alive
}

// pidSpace names the pid namespace of this process as Claude does, with the host name: the
// first namespace of every Linux system has the same number, and hosts can share a home
// directory.
func pidSpace() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	return host + "#" + ns, err
}

// stat returns the state and the start time of a process, as /proc spells them.
func stat(pid int) (state, start string, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", err
	}
	// The second field is the command, which can hold spaces and brackets.
	i := bytes.LastIndexByte(data, ')')
	fields := bytes.Fields(data[i+1:])
	if i < 0 || len(fields) < 20 {
		return "", "", fmt.Errorf("teams: /proc/%d/stat has an unknown form", pid)
	}
	return string(fields[0]), string(fields[22-3]), nil
}

// thisProcess returns the pid space and start time of this process for leadProcess; if they
// are empty, its liveness is unknown.
func thisProcess() (space, start string) {
	space, err := pidSpace()
	if err != nil {
		return "", ""
	}
	_, start, err = stat(os.Getpid())
	if err != nil {
		return "", ""
	}
	return space, start
}

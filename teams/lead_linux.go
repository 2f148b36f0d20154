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
	// Asked first, for /proc can be mounted so that it hides the processes of
	// other users (hidepid); the kernel's answer is not affected by that.
	if errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH) {
		return Gone
	}
	state, start, err := stat(p.PID)
	switch {
	case err != nil || p.ProcStart == "":
		return Unknown
	case start != p.ProcStart || state == "Z" || state == "X":
		return Gone
	}
	return Alive
}

// pidSpace names the pid namespace of this process the way Claude does. The
// host name belongs to it: the first namespace of every Linux system has the
// same number, and a home directory can be shared between hosts.
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

// thisProcess says of this process what is in leadProcess. What cannot be
// told is empty: whether it is alive is unknown then.
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

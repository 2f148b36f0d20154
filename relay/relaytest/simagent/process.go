package simagent

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Process says which process leads a team, as leadProcess in config.json.
type Process struct {
	PID     int
	Space   string    // host name, "#" and the pid namespace: "vm#pid:[4026531836]"
	Claimed time.Time // zero: the time the team is made
	Start   string    // start time in clock ticks since boot: field 22 of /proc/<pid>/stat
}

// CurrentProcess returns the present process, to serve as a living lead. Claude Code's Space and Start were measured
// on Linux only: elsewhere Start is empty and Space the host's name.
func CurrentProcess() (Process, error) {
	p := Process{PID: os.Getpid()}
	var err error
	if p.Space, err = os.Hostname(); err != nil {
		return Process{}, fmt.Errorf("simagent: current process: %w", err)
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	stat, statErr := os.ReadFile("/proc/self/stat")
	if err != nil || statErr != nil {
		return p, nil
	}
	p.Space += "#" + space
	p.Start, err = startTime(string(stat))
	return p, err
}

// startTime returns field 22. Fields are counted from the end of the command's
// name, field 2, which may itself hold spaces and parentheses.
func startTime(stat string) (string, error) {
	const afterName, field = 3, 22
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= field-afterName {
		return "", fmt.Errorf("simagent: current process: %d fields in stat, want at least %d", len(fields)+afterName-1, field)
	}
	return fields[field-afterName], nil
}

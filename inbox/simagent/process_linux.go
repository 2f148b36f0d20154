package simagent

import (
	"fmt"
	"os"
	"strings"
)

// CurrentProcess returns the process it is called in, to stand as a lead that
// is alive.
func CurrentProcess() (Process, error) {
	host, err := os.Hostname()
	if err != nil {
		return Process{}, fmt.Errorf("simagent: current process: %w", err)
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return Process{}, fmt.Errorf("simagent: current process: %w", err)
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return Process{}, fmt.Errorf("simagent: current process: %w", err)
	}
	start, err := startTime(string(stat))
	if err != nil {
		return Process{}, err
	}
	return Process{PID: os.Getpid(), Space: host + "#" + space, Start: start}, nil
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

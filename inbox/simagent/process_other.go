//go:build !linux

package simagent

import (
	"fmt"
	"os"
)

// CurrentProcess returns the process it is called in, to stand as a lead that
// is alive. What Claude Code writes as Space and Start was measured on Linux
// only: here Start is empty and Space the host's name.
func CurrentProcess() (Process, error) {
	host, err := os.Hostname()
	if err != nil {
		return Process{}, fmt.Errorf("simagent: current process: %w", err)
	}
	return Process{PID: os.Getpid(), Space: host}, nil
}

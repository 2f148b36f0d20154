//go:build !linux

package pane

import (
	"os/exec"
	"strconv"
	"strings"
)

// parentOf returns the parent of a process; 0 if it does not run.
func parentOf(pid int) int {
	out, err := exec.Command("ps", "-o", "ppid=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0
	}
	parent, _ := strconv.Atoi(strings.TrimSpace(string(out))) // 0 on an error
	return parent
}

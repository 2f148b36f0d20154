//go:build !linux && !windows

package process

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// started returns no start time on this system. On some systems it cannot even tell whether a process has
// ended.
func started(pid int) (start string, there bool) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return "", false
	}
	defer p.Release()
	err = p.Signal(syscall.Signal(0))
	return "", !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH)
}

// Ticks returns "": this system does not report it.
func Ticks(int) string { return "" }

// Parent returns the parent of a process; 0 if the process is not running.
func Parent(pid int) int {
	out, err := exec.Command("ps", "-o", "ppid=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0
	}
	parent, _ := strconv.Atoi(strings.TrimSpace(string(out))) // 0 on an error
	return parent
}

// Stopped reports whether a process was stopped, as by Ctrl-Z at its terminal, and does nothing until it is continued.
func Stopped(pid int) bool {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(out)), "T")
}

// Identify returns the identity of a child that was just started.
func Identify(pid int) Predecessor { return Predecessor{PID: pid, Group: pid} }

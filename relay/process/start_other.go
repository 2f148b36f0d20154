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

// started cannot tell when a process started here, only, and not everywhere, that it has ended.
func started(pid int) (start string, there bool) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return "", false
	}
	defer p.Release()
	err = p.Signal(syscall.Signal(0))
	return "", !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH)
}

// Ticks is not known here.
func Ticks(int) string { return "" }

// Parent is the parent of a process; 0 if it does not run.
func Parent(pid int) int {
	out, err := exec.Command("ps", "-o", "ppid=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0
	}
	parent, _ := strconv.Atoi(strings.TrimSpace(string(out))) // 0 on an error
	return parent
}

// Identify is a child that has just been started.
func Identify(pid int) Predecessor { return Predecessor{PID: pid, Group: pid} }

package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// OwnGroup keeps an interrupt from our keyboard from the command. A group that can be ended as one would take a job
// object.
func OwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// TermGroup ends the process: there is no way to ask, and no group.
func TermGroup(pid int) error { return KillGroup(pid) }

// KillGroup ends the process.
func KillGroup(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil // gone
	}
	defer p.Release()
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// SignalName is empty: no signal ends a process here.
func SignalName(*os.ProcessState) string { return "" }

// wait waits for a command. There is no group to end.
func wait(cmd *exec.Cmd, _ int) error { return cmd.Wait() }

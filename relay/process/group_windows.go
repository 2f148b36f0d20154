package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// OwnGroup protects the command from interrupts of our keyboard. To end it with its children would require a
// job object.
func OwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// TermGroup ends the process. Windows has no way to ask it, and no groups.
func TermGroup(pid int) error { return KillGroup(pid) }

// KillGroup ends the process.
func KillGroup(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil // it is gone
	}
	defer p.Release()
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// SignalName returns "": on Windows, no signal ends a process.
func SignalName(*os.ProcessState) string { return "" }

// wait waits for a command. There is no group to end.
func wait(cmd *exec.Cmd, _ int) error { return cmd.Wait() }

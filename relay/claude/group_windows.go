package claude

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps an interrupt from our keyboard from the command. A group that can be ended as one would take a job
// object.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// There is no way to ask, and no group: both end the one process.
func termGroup(pid int) error { return killGroup(pid) }

func killGroup(pid int) error {
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

func signalName(*os.ProcessState) string { return "" }

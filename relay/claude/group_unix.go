//go:build unix

package claude

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the command the leader of a process group, so that it ends with what it started, and so that an
// interrupt from our keyboard is not one for it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// A group that is gone is no error.
func termGroup(group int) error { return signalGroup(group, syscall.SIGTERM) }
func killGroup(group int) error { return signalGroup(group, syscall.SIGKILL) }

func signalGroup(group int, s syscall.Signal) error {
	if group <= 1 {
		return nil // -1 would be everybody
	}
	if err := syscall.Kill(-group, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// signalName is the signal that ended a process, empty if none did.
func signalName(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}

//go:build unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// OwnGroup makes the command the leader of a process group, so that it ends with what it started. An interrupt
// from our keyboard is not sent to it.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// TermGroup asks a group to end. One that is gone is no error.
func TermGroup(group int) error { return signalGroup(group, syscall.SIGTERM) }

// KillGroup ends a group at once. One that is gone is no error.
func KillGroup(group int) error { return signalGroup(group, syscall.SIGKILL) }

func signalGroup(group int, s syscall.Signal) error {
	if group <= 1 {
		return nil // -1 would be everybody
	}
	if err := syscall.Kill(-group, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// SignalName is the signal that ended a process, empty if none did.
func SignalName(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}

//go:build unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// OwnGroup makes the command the leader of its own process group, so that its children can be ended with it.
// The group gets no interrupts from our keyboard.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// TermGroup asks a group to end. If it is gone, there is no error.
func TermGroup(group int) error { return signalGroup(group, syscall.SIGTERM) }

// KillGroup kills a group. If it is gone, there is no error.
func KillGroup(group int) error { return signalGroup(group, syscall.SIGKILL) }

func signalGroup(group int, s syscall.Signal) error {
	if group <= 1 {
		return nil // -1 would signal every process
	}
	if err := syscall.Kill(-group, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// SignalName returns the name of the signal that ended a process, or "".
func SignalName(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}

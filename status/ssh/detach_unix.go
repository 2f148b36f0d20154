//go:build unix && !linux

package ssh

import (
	"os/exec"
	"syscall"
)

// detach gives cmd a session of its own, without our terminal. The process ends when its stdin is closed.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

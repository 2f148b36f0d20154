//go:build unix && !linux

package ssh

import (
	"os/exec"
	"syscall"
)

// detach gives cmd a session of its own, without our terminal. It ends when its stdin does.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

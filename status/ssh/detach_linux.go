package ssh

import (
	"os/exec"
	"syscall"
)

// detach gives cmd a session of its own, without our terminal, and ends it with us.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}

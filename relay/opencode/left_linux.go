package opencode

import (
	"os/exec"
	"syscall"
)

// dieWithUs makes the kernel kill a command when this process dies.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }

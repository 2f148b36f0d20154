package opencode

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the kernel kill a command that is started when this process is killed.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }

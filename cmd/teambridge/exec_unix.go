//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// killWithChildren makes the end of cmd's context kill it and what it started.
func killWithChildren(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

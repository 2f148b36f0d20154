//go:build unix

package standin

import (
	"errors"
	"os/exec"
	"syscall"
)

// ownGroup makes the command the leader of a process group, so that it ends with what it started.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks the process of that id to end; kill ends its whole group. A process that is gone is no error.
func terminate(pid int) error { return ignoreGone(syscall.Kill(pid, syscall.SIGTERM)) }
func kill(pid int) error      { return ignoreGone(syscall.Kill(-pid, syscall.SIGKILL)) }

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// exists is false once the process has ended, whether or not its parent has noticed.
func exists(pid int) bool {
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && !zombie(pid)
}

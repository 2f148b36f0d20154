package terminal

import (
	"os/exec"

	"golang.org/x/sys/unix"

	"teambridge/relay/process"
)

// stopped reports whether a child process is stopped.
func stopped(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// reap waits for the end of a command. It calls ended before another process can get the id.
func reap(cmd *exec.Cmd, ended func()) error {
	process.WaitExit(cmd)
	ended()
	return cmd.Wait()
}

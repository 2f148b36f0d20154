//go:build unix && !linux

package terminal

import "os/exec"

// stopped returns true, because this system cannot tell. To continue a running process has no effect.
func stopped(int) bool { return true }

// reap waits for the end of a command, and then calls ended.
func reap(cmd *exec.Cmd, ended func()) error {
	err := cmd.Wait()
	ended()
	return err
}

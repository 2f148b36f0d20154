//go:build unix && !linux

package terminal

import "os/exec"

// stopped cannot find out. Continuing a running process does nothing.
func stopped(int) bool { return true }

// reap waits for the end of a command.
func reap(cmd *exec.Cmd, ended func()) error {
	err := cmd.Wait()
	ended()
	return err
}

//go:build !linux && !windows

package process

import "os/exec"

// wait waits for a command, and then ends its group. In between, another process could get the id, because
// this system cannot wait without reaping.
func wait(cmd *exec.Cmd, group int) error {
	err := cmd.Wait()
	_ = KillGroup(group)
	return err
}

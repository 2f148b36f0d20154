//go:build !linux && !windows

package process

import "os/exec"

// wait waits for a command, and ends its group. Between the two another could get its id: nothing waits without
// reaping here.
func wait(cmd *exec.Cmd, group int) error {
	err := cmd.Wait()
	_ = KillGroup(group)
	return err
}

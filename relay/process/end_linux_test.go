package process_test

import (
	"os/exec"
	"testing"

	"teambridge/relay/process"
	"teambridge/teams/errtest"
)

func TestOnEnd(t *testing.T) {
	t.Parallel()
	start := func() *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		errtest.Must(t, cmd.Start())
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		return cmd
	}
	ended := make(chan string, 2)
	for _, name := range []string{"stopped", "awaited"} {
		cmd := start()
		stop, err := process.OnEnd(cmd.Process.Pid, func() { ended <- name })
		errtest.Must(t, err)
		if name == "stopped" {
			stop()
		}
		errtest.Must(t, cmd.Process.Kill()) // and not waited for: it is a zombie
	}
	if name := <-ended; name != "awaited" {
		t.Errorf("%q is reported", name)
	}
	cmd := start()
	_, _ = cmd.Process.Kill(), cmd.Wait()
	if _, err := process.OnEnd(cmd.Process.Pid, func() {}); err == nil {
		t.Error("the end of a process that has ended will be reported")
	}
}

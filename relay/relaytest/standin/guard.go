package standin

import (
	"io"
	"os/exec"

	"teambridge/relay/process"
)

// guard runs a shell command when this process dies without any clean-up, as by a test's timeout: its children would
// run on for days. It is a shell that waits for the end of its stdin, which the kernel closes.
type guard struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startGuard arms a guard; args are $0, $1 and so on in the command.
func startGuard(env []string, command string, args ...string) (*guard, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", "cat >/dev/null; " + command}, args...)...)
	cmd.Env = env
	process.OwnGroup(cmd) // an interrupt from the keyboard must not end it before its work
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &guard{cmd: cmd, stdin: stdin}, nil
}

// fire runs the command now and waits for it.
func (g *guard) fire() error {
	_ = g.stdin.Close()
	return g.cmd.Wait()
}

// disarm ends the guard without running the command.
func (g *guard) disarm() {
	_ = process.KillGroup(g.cmd.Process.Pid)
	_ = g.cmd.Wait()
}

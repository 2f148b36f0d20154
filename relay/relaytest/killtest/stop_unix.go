//go:build unix

package killtest

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// stopAt stops the process when it first reaches its point, until it is continued.
func stopAt(point string) {
	if point != os.Getenv(envStopAt) {
		return
	}
	_ = os.Unsetenv(envStopAt)
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-continued
}

// Stop starts a command whose process stops at a point, and waits until it has. [Process.Continue] continues it.
func Stop(t testing.TB, cmd *exec.Cmd, point string) *Process {
	t.Helper()
	cmd.Env = append(cmd.Env, envStopAt+"="+point)
	p := Start(t, cmd)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.PID(), &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it did not stop: %v, %v\n%s", status, err, p.Stderr())
	}
	return p
}

// Continue continues a stopped process, and returns the lines that it prints until it has ended by itself.
func (p *Process) Continue() (lines []string, err error) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
	return p.rest(), p.wait()
}

package opencode

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"teambridge/relay/process"
)

// Processes that the tools of a killed server left are killed before another server resumes its
// session. Processes of others are not.
func TestToolsOfADeadServer(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	must(t, os.MkdirAll(serversDir(state), 0o700))
	tool := func(password string) (*exec.Cmd, chan struct{}) {
		cmd := exec.Command("sleep", "600")
		cmd.Env = []string{"A=b", envPassword + "=" + password}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		must(t, cmd.Start())
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
		return cmd, ended
	}
	_, left := tool("secret-1")
	other, _ := tool("secret-12")
	data, err := json.Marshal(serving{Predecessor: process.Predecessor{PID: os.Getpid(), Start: "another"}, Session: "s", Password: "secret-1"})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(serversDir(state), "1.json"), data, 0o600))
	must(t, (Options{State: state}).sweep(t.Context(), "s"))
	<-left
	if alive, err := process.Identify(other.Process.Pid).Alive(); !alive || err != nil {
		t.Errorf("what another server runs: alive %t, %v", alive, err)
	}
}

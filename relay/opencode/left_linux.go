package opencode

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithUs has the kernel kill a command that is started when this process is killed.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }

// killTools kills what the tools of a server run that was killed itself. OpenCode starts each
// in a session of its own, so that they are not in the server's group; but they have its
// password in their environment, which nobody else has.
func killTools(password string) {
	if password == "" {
		return
	}
	marker := []byte(envPassword + "=" + password + "\x00")
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is right
	for _, f := range files {
		// Those of others cannot be read; one that ends meanwhile is gone.
		env, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(append(env, 0), marker) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

package proc_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/teams/proc"
)

// The name of a program can contain the character that ends it in /proc.
func TestRead(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	name := filepath.Join(t.TempDir(), "a) Z 1 (b")
	cmd := exec.Command(name, "-c", "echo; read line")
	in, ierr := cmd.StdinPipe()
	out, oerr := cmd.StdoutPipe()
	if err := errors.Join(os.Symlink(shell, name), ierr, oerr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	data, err := os.ReadFile("/proc/self/stat")
	self, serr := proc.Read(os.Getpid())
	if start := strings.Fields(string(data))[21]; err != nil || serr != nil || self.Start != start { // field 22, counted from 1, as proc_pid_stat(5) has it
		t.Errorf("this process is %+v, %v; want it to start at %s", self, serr, start)
	}
	if env, err := os.ReadFile("/proc/self/environ"); err != nil || self.Environ != len(env) {
		t.Errorf("the environment has %d bytes, not %d, %v", self.Environ, len(env), err)
	}
	s, err := proc.Read(cmd.Process.Pid)
	if err != nil || s.Name != "a) Z 1 (b" || s.Ended || s.Parent != os.Getpid() || s.Group != self.Group || s.Foreground != self.Foreground {
		t.Errorf("it is %+v, %v", s, err)
	}
	in.Close()
	for lines.Scan() {
	}
	for !s.Ended && err == nil {
		s, err = proc.Read(cmd.Process.Pid)
	}
	_ = cmd.Wait()
	if _, gone := proc.Read(cmd.Process.Pid); err != nil || gone == nil {
		t.Errorf("at its end: %v; after it: %v", err, gone)
	}
	if up := time.Since(proc.Booted()); up <= 0 || up > 100*365*24*time.Hour {
		t.Errorf("the machine runs for %v", up)
	}
}

package process

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// A process is found while it replaces its program, too: it has no environment for an instant.
func TestFindByEnvWithinExec(t *testing.T) {
	t.Parallel()
	mark := "TEAMBRIDGE_TEST_MARK=" + rand.Text()
	script := filepath.Join(t.TempDir(), "again")
	must(t, os.WriteFile(script, []byte(`exec sh "$0"`), 0o600))
	cmd := exec.Command("sh", script)
	cmd.Env = append(os.Environ(), mark)
	must(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	for n := range 300 {
		if found := FindByEnv(mark); !slices.Equal(found, []int{cmd.Process.Pid}) {
			t.Fatalf("look %d finds %d, not process %d", n, found, cmd.Process.Pid)
		}
	}
}

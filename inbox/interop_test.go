package inbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// lockPeer returns a command that runs testdata/peer.js, which writes to inboxes
// as a first generation agent does, with npm's proper-lockfile. Where node or
// proper-lockfile is missing the test is skipped, or fails if
// TEAMBRIDGE_INTEROP_REQUIRED is 1.
func lockPeer(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("TEAMBRIDGE_INTEROP_REQUIRED") == "1" {
		missing = t.Fatalf
	}
	node, err := exec.LookPath("node")
	if err != nil {
		missing("node is needed: %v", err)
	}
	dir := os.Getenv("TEAMBRIDGE_INTEROP")
	if dir == "" {
		dir = filepath.Join("..", ".interop")
	}
	dir, err = filepath.Abs(filepath.Join(dir, "proper-lockfile", "node_modules"))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "proper-lockfile", "package.json"))
	}
	if err != nil {
		missing("proper-lockfile is needed (TEAMBRIDGE_INTEROP, or .interop beside go.mod): %v", err)
	}
	cmd := exec.Command(node, append([]string{filepath.Join("testdata", "peer.js")}, args...)...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+dir)
	return cmd
}

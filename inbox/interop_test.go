package inbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"teambridge/relay/relaytest/standin"
)

// lockPeer returns a command that runs testdata/peer.js, which writes to inboxes in place with npm's proper-lockfile,
// as older versions of Claude Code do. If node or proper-lockfile is missing, the test is skipped or fails; see
// standin.Require.
func lockPeer(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(standin.RequireNode(t), append([]string{filepath.Join("testdata", "peer.js")}, args...)...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+standin.RequireProperLockfile(t))
	return cmd
}

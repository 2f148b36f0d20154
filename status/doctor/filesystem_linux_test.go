package doctor

import (
	"path/filepath"
	"strings"
	"testing"

	"teambridge/status/api"
	"teambridge/teams"
)

// A Claude directory on a file system without events is found, and no other.
func TestEventless(t *testing.T) {
	t.Parallel()
	if kind := eventless("/proc/self"); kind != "" {
		t.Errorf("/proc is on %s", kind)
	}
	if kind := eventless(filepath.Join(t.TempDir(), "none")); kind != "" {
		t.Errorf("what is not there is on %s", kind)
	}
	root, err := teams.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	x := &examination{Checkup: Checkup{Root: root}}
	x.fileSystem("NFS")
	if len(x.findings) != 1 || x.findings[0].Level != api.LevelNote || !strings.Contains(x.findings[0].Message, "NFS") || x.findings[0].Path != root.Path() {
		t.Errorf("found %+v, want a note about NFS and the directory", x.findings)
	}
	x.fileSystem("")
	if len(x.findings) != 1 {
		t.Errorf("found %+v on a usual file system", x.findings[1:])
	}
}

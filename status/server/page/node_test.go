package page

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"teambridge/relay/standin"
)

// The modules that need no browser are tested by testdata/*.test.mjs.
func TestModules(t *testing.T) {
	t.Parallel()
	node := standin.RequireNode(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("files")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	// So that node takes files named .js for modules, as a browser does.
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--test")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

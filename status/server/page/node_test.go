package page

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"teambridge/inbox"
	"teambridge/relay/relaytest/standin"
)

// The modules that need no browser are tested by testdata/*.test.mjs.
func TestModules(t *testing.T) {
	t.Parallel()
	node := standin.RequireNode(t)
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("files")))
	must(t, os.CopyFS(dir, os.DirFS("testdata")))
	// So that node loads files named .js as modules, as a browser does.
	must(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "corpus.json"), corpus(t), 0o600))
	cmd := exec.CommandContext(t.Context(), node, "--test")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// corpus returns the texts of tests in Go, and texts at the limits, in the form for
// hostile.test.mjs.
func corpus(t *testing.T) []byte {
	t.Helper()
	list := HostileTexts()
	files, err := filepath.Glob("../../../teams/testdata/*/inboxes/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d inboxes, %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		must(t, err)
		rows, err := inbox.Parse(data)
		if err != nil {
			continue // a file that must be refused
		}
		for _, r := range rows {
			list = append(list, r.Text)
		}
	}
	data, err := json.Marshal(list)
	must(t, err)
	return data
}

package plugin

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files of the repository")

// The plugin in the repository is the one that is installed, but for the program.
func TestRepository(t *testing.T) {
	t.Parallel()
	all, _, err := Content("teambridge", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{hooksFile, serversFile} {
		path := filepath.Join(Name, filepath.FromSlash(file))
		if *update {
			if err := os.WriteFile(path, all[file], 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, all[file]) {
			t.Errorf("%s differs (%v): go test ./plugin -update", path, err)
		}
	}
}

// Each program and each change of a file gives another version, without which Claude Code would keep the old files.
func TestVersion(t *testing.T) {
	t.Parallel()
	versions := map[string]bool{}
	for _, program := range []string{"/a/teambridge", "/b/teambridge", "/it's here/teambridge"} {
		for _, flags := range [][]string{nil, {"--state-dir", "/x y"}} {
			all, version, err := Content(program, flags)
			if err != nil {
				t.Fatal(err)
			}
			again, same, _ := Content(program, flags)
			if same != version || !maps.EqualFunc(all, again, bytes.Equal) {
				t.Errorf("%s %q: versions %s and %s", program, flags, version, same)
			}
			versions[version] = true
			if !strings.Contains(string(all[manifestFile]), version) {
				t.Errorf("the manifest has no version %s: %s", version, all[manifestFile])
			}
		}
	}
	if len(versions) != 6 {
		t.Errorf("%d versions for 6 plugins", len(versions))
	}
}

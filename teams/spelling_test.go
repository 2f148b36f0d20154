package teams

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folding is a directory of a file system that ignores case and the normal form of "é", as the one of macOS does.
type folding struct{ *os.Root }

func (f folding) Lstat(name string) (fs.FileInfo, error) {
	parent, base := filepath.Split(name)
	entries, err := list(f.Root, filepath.Clean(parent))
	if err != nil {
		return nil, err
	}
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "e\u0301", "é") }
	for _, e := range entries {
		if fold(e.Name()) == fold(base) {
			return f.Root.Lstat(filepath.Join(parent, e.Name()))
		}
	}
	return nil, fs.ErrNotExist
}

func TestSpelling(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"Build", "caf\u00e9", "1"} {
		must(t, os.MkdirAll(filepath.Join(dir, "teams", name), 0o700))
	}
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	for _, tt := range []struct{ name, want string }{
		{"Build", "Build"}, {"build", "Build"}, {"BUILD", "Build"}, {"1", "1"}, {"caf\u00e9", "caf\u00e9"}, {"cafe\u0301", "caf\u00e9"}, {"CAFE\u0301", "caf\u00e9"}, {"none", "none"},
	} {
		if got := spelling(folding{root}, "teams", tt.name); got != tt.want {
			t.Errorf("%+q is spelled %+q, want %+q", tt.name, got, tt.want)
		}
	}
}

// Another spelling of a team is the same team, and of an inbox the same inbox. This needs a file system that ignores
// case: on Linux, TMPDIR must be on one.
func TestNamesThatDifferInCase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "teams", "build", inboxesDir), 0o700))
	if _, err := os.Stat(filepath.Join(dir, "TEAMS")); err != nil {
		t.Skip("names that differ in case are two files here")
	}
	must(t, os.WriteFile(filepath.Join(dir, "teams", "build", configFile), []byte("{}"), 0o600))
	root, err := Open(dir)
	must(t, err)
	defer root.Close()
	files := map[string]bool{}
	for _, made := range []bool{false, true} {
		for _, name := range []string{"build", "Build", "BUILD"} {
			team, err := root.Team(name)
			must(t, err)
			if team.Name() != "build" || filepath.Base(team.Path()) != "build" {
				t.Errorf("%s is opened as %s, in %s", name, team.Name(), team.Path())
			}
			for _, member := range []string{"worker", "Worker"} {
				files[team.InboxFile(member)] = true
			}
			team.Close()
		}
		if !made {
			must(t, os.WriteFile(filepath.Join(dir, "teams", "build", inboxesDir, "Worker.json"), []byte("[]"), 0o600))
		}
	}
	if len(files) != 1 {
		t.Errorf("one inbox has the keys %v", files)
	}
}

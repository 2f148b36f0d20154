package sharedfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"teambridge/teams/errtest"
	"teambridge/teams/sharedfile"
)

// An open file can be renamed and removed, which os.Open does not allow on Windows.
func TestOwnerMayRemoveWhatIsOpen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dir")
	path := filepath.Join(dir, "file")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(path, []byte("word"), 0o600))
	if data, err := sharedfile.ReadFile(path); err != nil || string(data) != "word" {
		t.Errorf("read %q, %v", data, err)
	}
	if entries, err := sharedfile.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "file" {
		t.Errorf("directory holds %v, %v", entries, err)
	}
	file, err := sharedfile.Open(path)
	must(t, err)
	must(t, os.Rename(path, path+"2"))
	must(t, os.Remove(path+"2"))
	must(t, file.Close())
	open, err := sharedfile.Open(dir)
	must(t, err)
	must(t, os.Remove(dir))
	must(t, open.Close())
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the directory is still there")
	}
}

var must = errtest.Must

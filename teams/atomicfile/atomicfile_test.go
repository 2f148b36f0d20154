package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"teambridge/teams/errtest"
)

var must = errtest.Must

// only checks that the file has this text and this mode, and is the only file in its directory.
func only(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || string(data) != text {
		t.Errorf("%.40q, %v; want %q", data, err, text)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != mode && runtime.GOOS != "windows" {
		t.Errorf("mode %v, %v; want %v", info.Mode(), err, mode)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("beside it: %v, %v", all, err)
	}
}

// A new file can be used only by its owner, and an existing one keeps its mode.
func TestWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	must(t, Write(path, []byte("first")))
	only(t, path, "first", 0o600)
	must(t, os.Chmod(path, 0o640))
	// A reader keeps the file that it opened.
	old, err := os.Open(path)
	must(t, err)
	defer old.Close()
	if runtime.GOOS == "windows" { // where an open file cannot be replaced
		old.Close()
	}
	must(t, Write(path, []byte("second")))
	only(t, path, "second", 0o640)
	if data, err := io.ReadAll(old); runtime.GOOS != "windows" && (err != nil || string(data) != "first") {
		t.Errorf("a reader of the old file: %q, %v", data, err)
	}
}

// A write that fails in the middle leaves the old file, and no other file.
func TestReplaceFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	full := errors.New("the disk is full")
	write := func(w io.Writer) error {
		if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
			return err
		}
		return full
	}
	if err := Replace(path, write); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 0 {
		t.Errorf("left behind: %v, %v", all, err)
	}
	must(t, Write(path, []byte("kept")))
	if err := Replace(path, write); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	only(t, path, "kept", 0o600)
	if err := Write(filepath.Join(path, "missing", "file"), nil); err == nil {
		t.Error("a file was written into a directory that is not there")
	}
}

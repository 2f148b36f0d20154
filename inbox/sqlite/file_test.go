package sqlite

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/teams/errtest"
	"teambridge/teams/winetest"
)

var must = errtest.Must

func TestFileModes(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "a file has the access list of its directory, and no mode")
	path := filepath.Join(t.TempDir(), "state", "program", "diary.db")
	wantModes := func(modes map[string]fs.FileMode) {
		t.Helper()
		for name, want := range modes {
			info, err := os.Stat(name)
			must(t, err)
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s: mode %o, want %o", name, got, want)
			}
		}
	}
	d := open(t, path, aFormat())
	run(t, d, "INSERT INTO days (text) VALUES ('kept')")
	wantModes(map[string]fs.FileMode{
		filepath.Dir(filepath.Dir(path)): 0o700, filepath.Dir(path): 0o700,
		path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600,
	})
	// Open takes the permissions of others away from the file, and does not change its directory.
	shut(t, d)
	must(t, os.Chmod(path, 0o664))
	must(t, os.Chmod(filepath.Dir(path), 0o755))
	newDB(t, path)
	wantModes(map[string]fs.FileMode{filepath.Dir(path): 0o755, path: 0o600})
}

func TestPathsAreOnlyPaths(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "most of the names cannot be given")
	for _, name := range []string{
		"plain", "a b", "a?mode=memory", "?", "a%20b", "%", "%00", "a#b", "#", "a&b=c", "a;b",
		":memory:", "file:x", "file::memory:?cache=shared", "a'b\"c", `back\slash`, "new\nline",
		"Größe", "\xff\xfe", "a?_pragma=user_version(9)", "-", "a+b", "a?vfs=none",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), name)
			path := filepath.Join(dir, name)
			firstVersion(t, path)
			entries, err := os.ReadDir(dir)
			must(t, err)
			if len(entries) != 1 || entries[0].Name() != name {
				t.Errorf("directory holds %v, want only %q", entries, name)
			}
			above, err := os.ReadDir(filepath.Dir(dir))
			must(t, err)
			if len(above) != 1 {
				t.Errorf("directory above holds %v, want only %q", above, name)
			}
			if n := days(t, newDB(t, path)); n != 1 {
				t.Errorf("%d days, want the one that was written", n)
			}
		})
	}
}

func TestRelativePathIsFixedAtOpen(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	d := open(t, "diary.db", aFormat())
	t.Chdir(t.TempDir())
	run(t, d, "INSERT INTO days (text) VALUES ('kept')")
	shut(t, d)
	if _, err := os.Stat(filepath.Join(dir, "diary.db")); err != nil {
		t.Error(err)
	}
}

func TestPathsThatCannotBeADatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "directory"), 0o700))
	for _, path := range []string{"", "a\x00b", filepath.Join(dir, "directory"), filepath.Join(dir, "file", "diary.db")} {
		_, err := Open(t.Context(), path, aFormat())
		var bad *Error
		if !errors.As(err, &bad) || bad.Kind != ErrAccess {
			t.Errorf("Open(%q): %v, want ErrAccess", path, err)
		}
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("directory holds %v, want what was there", entries)
	}
}

// A file that is no database of ours, or is damaged, is refused and keeps its bytes.
func TestRefusedFilesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	// made returns the bytes of a database of some pages after a script.
	made := func(t *testing.T, script string) []byte {
		path := filepath.Join(t.TempDir(), "diary.db")
		d := open(t, path, aFormat())
		run(t, d, "INSERT INTO days (text) VALUES (hex(randomblob(5000))), (hex(randomblob(5000))), (hex(randomblob(5000)))")
		run(t, d, script)
		shut(t, d)
		data, err := os.ReadFile(path)
		must(t, err)
		return data
	}
	whole := func(t *testing.T) []byte { return made(t, "SELECT 1") }
	noise := bytes.Repeat([]byte{0xa5}, 1<<16)
	for _, test := range []struct {
		name string
		data func(*testing.T) []byte
		want error // nil: a NewerError
	}{
		{"text", func(*testing.T) []byte { return []byte("hello") }, ErrCorrupt},
		{"JSON", func(*testing.T) []byte { return bytes.Repeat([]byte(`{"a":1}`), 5000) }, ErrCorrupt},
		{"zeros", func(*testing.T) []byte { return make([]byte, 8192) }, ErrCorrupt},
		{"cut in the middle", func(t *testing.T) []byte { b := whole(t); return b[:len(b)/2] }, ErrCorrupt},
		{"cut after the first page", func(t *testing.T) []byte { return whole(t)[:4096] }, ErrCorrupt},
		{"cut in the header", func(t *testing.T) []byte { return whole(t)[:50] }, ErrCorrupt},
		{"pages overwritten", func(t *testing.T) []byte { b := whole(t); copy(b[4096:], noise); return b }, ErrCorrupt},
		{"first page overwritten after the header", func(t *testing.T) []byte { b := whole(t); copy(b[100:4096], noise); return b }, ErrCorrupt},
		{"a table of something else", func(t *testing.T) []byte {
			return made(t, "DROP TABLE days; CREATE TABLE x(a); PRAGMA application_id=0; PRAGMA user_version=0")
		}, ErrForeign},
		{"another application", func(t *testing.T) []byte { return made(t, "PRAGMA application_id=7") }, ErrForeign},
		{"another version", func(t *testing.T) []byte { return made(t, "PRAGMA application_id=0") }, ErrForeign},
		{"a development version", func(t *testing.T) []byte { return made(t, "PRAGMA application_id=0x64694151; PRAGMA user_version=13") }, ErrDevelopment},
		{"newer", func(t *testing.T) []byte { return made(t, "PRAGMA user_version=99") }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "diary.db")
			data := test.data(t)
			must(t, os.WriteFile(path, data, 0o600))

			// A fault that Open cannot see is found by a use. Neither repairs the file.
			d, err := Open(t.Context(), path, aFormat())
			if err == nil {
				for _, query := range []string{"SELECT max(text) FROM days", "DELETE FROM days", "INSERT INTO days (text) SELECT text FROM days"} {
					err = d.Do(t.Context(), "use", func(c *Conn) error { _, err := c.Exec(query); return err })
					wantError(t, err, test.want)
				}
				shut(t, d)
			}
			var newer *NewerError
			if test.want != nil {
				wantError(t, err, test.want)
			} else if !errors.As(err, &newer) || newer.Version != 99 || newer.Known != 1 || newer.Path != path {
				t.Fatalf("got %v, want a NewerError for version 99", err)
			}
			if !strings.Contains(err.Error(), path) || !strings.HasPrefix(err.Error(), "diary: ") {
				t.Errorf("%q does not name the file", err)
			}
			now, err := os.ReadFile(path)
			must(t, err)
			if !bytes.Equal(now, data) {
				t.Errorf("the file was changed")
			}
			entries, err := os.ReadDir(dir)
			must(t, err)
			if len(entries) != 1 {
				t.Errorf("directory holds %v, want the file alone", entries)
			}
		})
	}
}

// The log of a refused file stays, too: a process that ends without Close leaves a log.
func TestLogsOfRefusedFilesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mark string
		want error // nil: a NewerError
	}{
		"a development version": {"PRAGMA application_id=0x64694151", ErrDevelopment},
		"another application":   {"PRAGMA application_id=7", ErrForeign},
		"newer":                 {"PRAGMA user_version=99", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, path := filepath.Join(t.TempDir(), "diary.db"), filepath.Join(t.TempDir(), "diary.db")
			d := open(t, from, aFormat())
			run(t, d, "INSERT INTO days (text) VALUES ('in the log')")
			run(t, d, test.mark)
			before := map[string][]byte{}
			for _, suffix := range []string{"", "-wal"} {
				data, err := os.ReadFile(from + suffix)
				must(t, err)
				if before[suffix] = data; len(data) == 0 {
					t.Fatalf("%s is empty", filepath.Base(from+suffix))
				}
				must(t, os.WriteFile(path+suffix, data, 0o600))
			}
			shut(t, d)

			_, err := Open(t.Context(), path, aFormat())
			if newer := new(NewerError); test.want != nil {
				wantError(t, err, test.want)
			} else if !errors.As(err, &newer) {
				t.Errorf("got %v, want a NewerError", err)
			}
			for suffix, want := range before {
				if now, err := os.ReadFile(path + suffix); err != nil || !bytes.Equal(now, want) {
					t.Errorf("%s: %d bytes, %v; it had %d", filepath.Base(path+suffix), len(now), err, len(want))
				}
			}
		})
	}
}

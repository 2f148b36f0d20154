// Package sqlitetest makes databases for tests of packages with a database.
package sqlitetest

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A Template makes a database once and copies it, which is much faster than making each one. Make must close the
// database.
type Template struct {
	Make func(path string) error

	once sync.Once
	data []byte
	err  error
}

// New returns the path of a copy with the given name, in its own directory.
func (m *Template) New(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	m.Seed(t, path)
	return path
}

// Seed makes a copy at path, and its directory, unless there is a file already.
func (m *Template) Seed(t testing.TB, path string) {
	t.Helper()
	m.once.Do(func() {
		made := filepath.Join(t.TempDir(), "template.db")
		if m.err = m.Make(made); m.err == nil {
			m.data, m.err = os.ReadFile(made)
		}
	})
	_, err := os.Lstat(path)
	if err = cmp.Or(m.err, err); errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, m.data, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

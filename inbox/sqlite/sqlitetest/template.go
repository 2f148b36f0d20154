// Package sqlitetest makes databases for tests of packages with a database.
package sqlitetest

import (
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

// New returns the path of a copy with the given name, in a directory of its own.
func (m *Template) New(t testing.TB, name string) string {
	t.Helper()
	m.once.Do(func() {
		path := filepath.Join(t.TempDir(), name)
		if m.err = m.Make(path); m.err == nil {
			m.data, m.err = os.ReadFile(path)
		}
	})
	if m.err != nil {
		t.Fatal(m.err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, m.data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

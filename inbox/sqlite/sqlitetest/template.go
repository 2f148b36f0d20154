// Package sqlitetest makes databases for the tests of packages that have one.
package sqlitetest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A Template makes a database once and copies it, which takes a small part of the time. Make
// must close it.
type Template struct {
	Make func(path string) error

	once sync.Once
	data []byte
	err  error
}

// New returns the path of a copy, with that name, in a directory of its own.
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

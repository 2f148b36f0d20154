//go:build !windows

package watch_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"teambridge/teams/watch"
)

// Changes of a file that is written in place, as a database's log is, and of a later directory are reported.
func TestDirs(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	log, later := filepath.Join(top, "log"), filepath.Join(top, "later")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dirs, err := watch.OpenDirs(top, later)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	changes, ended := make(chan string, 100), make(chan error, 1)
	go func() { ended <- dirs.Run(ctx, func(dir string) { changes <- dir }) }()
	expect := func(dir string) {
		t.Helper()
		for {
			select {
			case got := <-changes:
				if got == dir {
					return
				}
			case err := <-ended:
				t.Fatalf("no change of %s: Run ended with %v", dir, err)
			}
		}
	}
	if _, err := f.WriteString("a page"); err != nil {
		t.Fatal(err)
	}
	expect(top)
	if err := os.Mkdir(later, 0o700); err != nil {
		t.Fatal(err)
	}
	expect(later)
	if err := os.WriteFile(filepath.Join(later, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(later)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

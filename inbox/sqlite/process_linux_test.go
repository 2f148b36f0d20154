package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teambridge/relay/relaytest/killtest"
)

// It is not parallel: a process that another test starts has all files of this one open for a moment.
func TestUsers(t *testing.T) {
	dir := t.TempDir()
	path, away := filepath.Join(dir, "diary.db"), filepath.Join(dir, "away", "diary.db")
	must(t, os.Mkdir(filepath.Dir(away), 0o700))
	shut(t, newDB(t, path))

	holder := killtest.Start(t, killtest.Command(t.Context(), "hold", path))
	if line := holder.Line(); line != "open" {
		t.Fatalf("got %q", line)
	}
	pid := holder.PID()
	wantUsers := func(path string, want ...Process) {
		t.Helper()
		if list, known := Users(path); !known || !slices.Equal(list, want) {
			t.Errorf("users of %s: %v, known %t; want %v", path, list, known, want)
		}
	}
	wantUses := func(path string, want bool) {
		t.Helper()
		if uses, known := Uses(pid, path); !known || uses != want {
			t.Errorf("the process uses %s: %t, known %t; want %t", path, uses, known, want)
		}
	}
	it := Process{pid, fmt.Sprintf("%s %s", filepath.Base(os.Args[0]), path)}
	wantUsers(path, it) // without this process, which has closed it
	wantUses(path, true)

	// Its name belongs to another file now.
	must(t, os.Rename(path, away))
	wantUses(path, false)
	shut(t, newDB(t, path))
	wantUses(path, false)
	wantUses(away, true)
	wantUsers(path)
	wantUsers(away, it)

	holder.Kill()
	if uses, known := Uses(pid, away); known {
		t.Errorf("a process that has ended: uses %t", uses)
	}
	wantUsers(away)
}

package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/teams/winetest"
)

// move moves an open database.
func move(t *testing.T, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		must(t, os.Rename(from+suffix, to+suffix))
	}
}

// A commit to a file that was moved away fails with ErrMoved, and the database that takes its place is not changed.
func TestMoved(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "a database that is open cannot be moved")
	write := func(d *DB) error {
		return d.Transaction(t.Context(), "write", "IMMEDIATE", func(c *Conn) error {
			_, err := c.Exec("INSERT INTO days (text) VALUES (?)", "word")
			return err
		})
	}
	dir := t.TempDir()
	path, away := filepath.Join(dir, "diary.db"), filepath.Join(dir, "away.db")
	d := open(t, path, aFormat())
	must(t, write(d))
	move(t, path, away)
	err := write(d)
	wantError(t, err, ErrMoved)
	if !strings.Contains(err.Error(), path) {
		t.Errorf("%q does not name the file", err)
	}
	move(t, away, path)
	must(t, write(d))

	move(t, path, away)
	other := newDB(t, path)
	must(t, write(other))
	wantError(t, write(d), ErrMoved)
	shut(t, d)
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Errorf("the log of the other database is gone: %v", err)
	}
	if n := days(t, newDB(t, path)); n != 1 {
		t.Errorf("%d days in the other database, want 1", n)
	}
	if n := days(t, newDB(t, away)); n != 2 {
		t.Errorf("%d days in the one that was moved, want 2", n)
	}
}

// A commit also fails with ErrMoved if the file is moved away during it.
func TestMovedMeanwhile(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "a database that is open cannot be moved")
	path := filepath.Join(t.TempDir(), "diary.db")
	d := open(t, path, aFormat())
	err := d.Do(t.Context(), "write", func(c *Conn) error {
		move(t, path, path+"2")
		_, err := c.Exec("INSERT INTO days (text) VALUES (?)", "word")
		return err
	})
	wantError(t, err, ErrMoved)
}

package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// twoSteps is aFormat with a second version. Its script fails if it is run twice.
func twoSteps() Format {
	f := aFormat()
	f.Schema = append(f.Schema, "ALTER TABLE days ADD COLUMN mood TEXT; INSERT INTO days (text, mood) VALUES ('migrated', 'good')")
	return f
}

func open(t *testing.T, path string, format Format) *DB {
	t.Helper()
	d, err := Open(t.Context(), path, format)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func shut(t *testing.T, d *DB) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// firstVersion makes a database of version 1 with one day in it.
func firstVersion(t *testing.T, path string) {
	t.Helper()
	d := open(t, path, aFormat())
	run(t, d, "INSERT INTO days (text) VALUES ('kept')")
	shut(t, d)
}

func run(t *testing.T, d *DB, script string) {
	t.Helper()
	err := d.Do(t.Context(), "run", func(c *Conn) error {
		_, err := c.Exec(script)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantMigrated wants the second step to have run once, after the given number of days.
func wantMigrated(t *testing.T, path string, before int64) {
	t.Helper()
	d := open(t, path, twoSteps())
	defer shut(t, d)
	for query, want := range map[string]int64{
		"SELECT count(*) FROM days":                         before + 1,
		"SELECT count(*) FROM days WHERE mood='good'":       1,
		"SELECT count(*) FROM days WHERE text='kept'":       before,
		"PRAGMA user_version":                               2,
		"SELECT count(*) FROM pragma_table_info('days')":    3,
		"SELECT count(*) FROM sqlite_schema WHERE name<>''": 1,
	} {
		err := d.Do(t.Context(), "look", func(c *Conn) error {
			got, err := c.Number(query)
			if err == nil && got != want {
				t.Errorf("%s: got %d, want %d", query, got, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	for before := range int64(2) {
		path := filepath.Join(t.TempDir(), "diary.db")
		if before > 0 {
			firstVersion(t, path)
		}
		wantMigrated(t, path, before)
		wantMigrated(t, path, before) // nothing is left to do
		// The program of before meets the newer file.
		_, err := Open(t.Context(), path, aFormat())
		var newer *NewerError
		if !errors.As(err, &newer) || newer.Version != 2 || newer.Known != 1 || newer.Path != path {
			t.Errorf("got %v, want a NewerError", err)
		}
		wantMigrated(t, path, before)
	}
}

func TestFailedMigrationLeavesTheVersionBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "diary.db")
	firstVersion(t, path)
	broken := aFormat()
	broken.Schema = append(broken.Schema, "CREATE TABLE half (a); DELETE FROM days; INSERT INTO nowhere VALUES (1)")
	_, err := Open(t.Context(), path, broken)
	if err == nil || !strings.Contains(err.Error(), "nowhere") || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v, want what failed and where", err)
	}
	d := open(t, path, aFormat())
	if n := days(t, d); n != 1 {
		t.Errorf("%d days, want the one of before", n)
	}
	shut(t, d)
	wantMigrated(t, path, 1)
}

// A retired file is refused whatever its version, and keeps its bytes.
func TestRetired(t *testing.T) {
	t.Parallel()
	for version := range 4 {
		dir := t.TempDir()
		path := filepath.Join(dir, "diary.db")
		d := open(t, path, aFormat())
		run(t, d, fmt.Sprintf("PRAGMA user_version=%d", version))
		shut(t, d)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		format := twoSteps()
		format.Retired = format.Application
		format.Application++
		_, err = Open(t.Context(), path, format)
		wantError(t, err, ErrRetired)
		for _, part := range []string{path, "development version", "move it"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		after, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("version %d: the file was changed, %v", version, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("directory holds %v, %v; want the file alone", entries, err)
		}
	}
}

// childVariable names the database that the test binary opens as a process of its own.
const childVariable = "SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		_, _ = io.Copy(io.Discard, os.Stdin) // until all have started
		d, err := Open(context.Background(), path, twoSteps())
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestManyProcessesMigrateOnce(t *testing.T) {
	t.Parallel()
	for round := range int64(6) {
		path := filepath.Join(t.TempDir(), "diary.db")
		if round%2 > 0 {
			firstVersion(t, path)
		}
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var commands [8]*exec.Cmd
		var output [8]bytes.Buffer
		for i := range commands {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), childVariable+"="+path, "GORACE=atexit_sleep_ms=0")
			cmd.Stdin, cmd.Stderr = read, &output[i]
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			commands[i] = cmd
		}
		read.Close()
		write.Close()
		for i, cmd := range commands {
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v\n%s", i, err, &output[i])
			}
		}
		wantMigrated(t, path, round%2)
	}
}

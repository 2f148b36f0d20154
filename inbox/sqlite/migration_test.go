package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"teambridge/relay/relaytest/killtest"
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
	must(t, err)
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
	must(t, err)
}

// wantMigrated checks that the second step has run once, after the given number of days.
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
		must(t, err)
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
		// A program of the earlier version refuses the newer file.
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

// An upgrade keeps one copy of the old database, which only the owner can read.
func TestCopies(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a[b", "diary.db") // the name must not be read as a pattern
	firstVersion(t, path)
	// A directory prevents a copy, so nothing is changed.
	must(t, os.MkdirAll(filepath.Join(path+".copying", "x"), 0o700))
	if d, err := Open(t.Context(), path, twoSteps()); err == nil || !strings.Contains(err.Error(), "keep a copy") {
		t.Fatalf("got %v, %v", d, err)
	}
	if d := open(t, path, aFormat()); days(t, d) != 1 {
		t.Error("the database was changed")
	} else {
		shut(t, d)
	}
	must(t, os.RemoveAll(path+".copying"))
	// An incomplete copy, and one from an earlier upgrade.
	for _, name := range []string{".copying", ".version7"} {
		must(t, os.WriteFile(path+name, []byte("old"), 0o600))
	}
	wantMigrated(t, path, 1)
	all, err := copies(path)
	if err != nil || len(all) != 1 || filepath.Base(all[0]) != "diary.db.version1" {
		t.Fatalf("copies %q, %v", all, err)
	}
	if info, err := os.Stat(all[0]); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	d := open(t, all[0], aFormat())
	defer shut(t, d)
	if n := days(t, d); n != 1 {
		t.Errorf("the copy has %d days", n)
	}
	if _, err := os.Lstat(path + ".copying"); err == nil {
		t.Error("left behind: half a copy")
	}
}

func TestMain(m *testing.M) {
	children := killtest.Roles{
		"migrate": func(args []string) error {
			if err := killtest.Started(); err != nil {
				return err
			}
			d, err := Open(context.Background(), args[0], twoSteps())
			if err != nil {
				return err
			}
			return d.Close()
		},
		"hold": func(args []string) error {
			_, err := Open(context.Background(), args[0], aFormat())
			if err != nil {
				return err
			}
			fmt.Println("open")
			killtest.AwaitKill()
			return nil
		},
	}
	maps.Copy(children, diskChildren())
	killtest.Main(m, children)
}

func TestManyProcessesMigrateOnce(t *testing.T) {
	t.Parallel()
	for round := range int64(6) {
		path := filepath.Join(t.TempDir(), "diary.db")
		if round%2 == 1 {
			firstVersion(t, path)
		}
		killtest.AtOnce(t, 8, func(int) *exec.Cmd { return killtest.Command(t.Context(), "migrate", path) })
		wantMigrated(t, path, round%2)
	}
}

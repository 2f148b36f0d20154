package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox/sqlite/sqlitetest"
)

// twoSteps is aFormat with a second version. Its script fails if it is run twice.
func twoSteps() Format {
	f := aFormat()
	f.Earlier = earlier()
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

// What a database was before it was brought up to date is kept, once, and for its owner alone.
func TestCopies(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a[b", "diary.db") // no pattern
	firstVersion(t, path)
	// In the way, so that no copy can be made: nothing is changed.
	if err := os.MkdirAll(filepath.Join(path+".copying", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if d, err := Open(t.Context(), path, twoSteps()); err == nil || !strings.Contains(err.Error(), "keep a copy") {
		t.Fatalf("got %v, %v", d, err)
	}
	if d := open(t, path, aFormat()); days(t, d) != 1 {
		t.Error("the database was changed")
	} else {
		shut(t, d)
	}
	if err := os.RemoveAll(path + ".copying"); err != nil {
		t.Fatal(err)
	}
	// A copy that was left half done, and one of an earlier time.
	for _, name := range []string{".copying", ".version0.7"} {
		if err := os.WriteFile(path+name, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wantMigrated(t, path, 1)
	all, err := Copies(path)
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
	sqlitetest.Main(m, map[string]func([]string) error{
		"migrate": func(args []string) error {
			if err := sqlitetest.Started(); err != nil {
				return err
			}
			aloneWithin = time.Minute // eight of them can take more than 1 s, as with Wine
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
			return sqlitetest.Started()
		},
	})
}

func TestManyProcessesMigrateOnce(t *testing.T) {
	t.Parallel()
	for round := range int64(9) {
		path := filepath.Join(t.TempDir(), "diary.db")
		switch round % 3 {
		case 1:
			firstVersion(t, path)
		case 2:
			shut(t, earlierVersion(t, path, 1))
		}
		sqlitetest.AtOnce(t, 8, func(int) *exec.Cmd { return sqlitetest.Child(t.Context(), "migrate", path) })
		wantMigrated(t, path, min(round%3, 1))
	}
}

// earlier are two versions from before that of aFormat, which has other names.
func earlier() Earlier {
	return Earlier{Application: 0x64694151, Schema: []string{
		"CREATE TABLE entries (number INTEGER PRIMARY KEY, text TEXT) STRICT; INSERT INTO entries (text) VALUES ('kept')",
		"CREATE INDEX entries_text ON entries (text)",
		"DROP INDEX entries_text; ALTER TABLE entries RENAME TO days; ALTER TABLE days RENAME COLUMN number TO n",
	}}
}

// earlierVersion makes a database of one of these versions with one day in it, as the program of that time.
func earlierVersion(t *testing.T, path string, version int) *DB {
	t.Helper()
	return open(t, path, Format{Name: "diary", Application: earlier().Application, Schema: earlier().Schema[:version]})
}

func TestEarlierVersions(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 2; version++ {
		path := filepath.Join(t.TempDir(), "diary.db")
		shut(t, earlierVersion(t, path, version))
		wantMigrated(t, path, 1)
		wantMigrated(t, path, 1)
		d := open(t, path, twoSteps())
		if mode := text(t, d, "PRAGMA journal_mode"); mode != "wal" {
			t.Errorf("the file has journal mode %s", mode)
		}
		shut(t, d)
		// The program of that time leaves it alone.
		_, err := Open(t.Context(), path, Format{Name: "diary", Application: earlier().Application, Schema: earlier().Schema[:version]})
		wantError(t, err, ErrForeign)
	}
	path := filepath.Join(t.TempDir(), "diary.db")
	d := earlierVersion(t, path, 1)
	run(t, d, "PRAGMA user_version=99")
	shut(t, d)
	var newer *NewerError
	if _, err := Open(t.Context(), path, twoSteps()); !errors.As(err, &newer) || newer.Version != 99 || newer.Known != 3 {
		t.Errorf("got %v, want a NewerError", err)
	}
}

// A program of that time would not find its tables any more, so it has to end first.
func TestEarlierVersionInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "diary.db")
	synctest.Test(t, func(t *testing.T) {
		user := earlierVersion(t, path, 1)
		_, err := Open(t.Context(), path, twoSteps())
		wantError(t, err, ErrInUse)
		run(t, user, "INSERT INTO entries (text) VALUES ('kept')") // it goes on
		go func() {
			time.Sleep(aloneWithin / 2) // of the bubble's clock
			shut(t, user)
		}()
		wantMigrated(t, path, 2)
	})
}

// A process that is killed while it brings up to date what is from before leaves a file that
// the next one finishes.
func TestEarlierVersionAfterAKill(t *testing.T) {
	t.Parallel()
	e := earlier()
	for _, script := range []string{
		"PRAGMA journal_mode=DELETE",
		"PRAGMA journal_mode=DELETE; " + e.Schema[1] + ";" + e.Schema[2] + "; PRAGMA user_version=3",
		e.Schema[1] + ";" + e.Schema[2] + "; PRAGMA user_version=3",
	} {
		path := filepath.Join(t.TempDir(), "diary.db")
		d := earlierVersion(t, path, 1)
		run(t, d, script)
		shut(t, d)
		wantMigrated(t, path, 1)
		d = open(t, path, twoSteps())
		if mode := text(t, d, "PRAGMA journal_mode"); mode != "wal" {
			t.Errorf("after %s, the file has journal mode %s", script, mode)
		}
		shut(t, d)
	}
}

// text returns the answer to a query.
func text(t *testing.T, d *DB, query string) (s string) {
	t.Helper()
	must(t, d.Do(t.Context(), "look", func(c *Conn) error { return c.Query(func(r Row) { s = r.Text(0) }, query) }))
	return s
}

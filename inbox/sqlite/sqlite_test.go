package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/teams/winetest"
)

func aFormat() Format {
	return Format{
		Name:        "diary",
		Application: 0x64694152,
		Development: []int32{0x64694151},
		Schema:      []string{"CREATE TABLE days (n INTEGER PRIMARY KEY, text TEXT) STRICT"},
	}
}

func newDB(t *testing.T, path string) *DB {
	t.Helper()
	d, err := Open(t.Context(), path, aFormat())
	must(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func days(t *testing.T, d *DB) (n int64) {
	t.Helper()
	err := d.Do(t.Context(), "count", func(c *Conn) (err error) {
		n, err = c.Number("SELECT count(*) FROM days")
		return err
	})
	must(t, err)
	return n
}

func TestTransactionIsAllOrNothing(t *testing.T) {
	t.Parallel()
	d := newDB(t, filepath.Join(t.TempDir(), "diary.db"))
	stop := errors.New("stop")
	for _, end := range []error{stop, nil} {
		err := d.Do(t.Context(), "write", func(c *Conn) error {
			return c.Transaction("IMMEDIATE", func() error {
				if _, err := c.Exec("INSERT INTO days (text) VALUES ('a'), ('b')"); err != nil {
					return err
				}
				return end
			})
		})
		if err != end {
			t.Fatalf("got %v, want %v as it is", err, end)
		}
		want := int64(2)
		if end != nil {
			want = 0
		}
		if n := days(t, d); n != want {
			t.Errorf("ended with %v: %d rows, want %d", end, n, want)
		}
	}
}

// The version changes with every commit, and with nothing else.
func TestVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "diary.db")
	d, other := newDB(t, path), newDB(t, path)
	last := ""
	version := func(changed bool, after string) {
		t.Helper()
		now, err := d.Version(t.Context())
		must(t, err)
		if (now != last) != changed {
			t.Errorf("after %s: %q, and %q before", after, now, last)
		}
		last = now
	}
	write := func(d *DB, then func()) {
		t.Helper()
		err := d.Transaction(t.Context(), "write", "IMMEDIATE", func(c *Conn) error {
			_, err := c.Exec("INSERT INTO days (text) VALUES (?)", "long")
			then()
			return err
		})
		must(t, err)
	}
	version(true, "nothing")
	version(false, "nothing")
	write(d, func() {})
	version(true, "a commit")
	days(t, d)
	days(t, other)
	version(false, "reading")
	write(other, func() { version(false, "what was not committed") })
	version(true, "a commit of another")
	version(false, "nothing")
}

// A poll asks SQLite only if there may have been a commit. The test controls the clock.
func TestPoll(t *testing.T) {
	t.Parallel()
	winetest.Skip(t, "Windows does not tell when an open file was written, so that SQLite is always asked")
	path := filepath.Join(t.TempDir(), "diary.db")
	synctest.Test(t, func(t *testing.T) {
		d, other := newDB(t, path), newDB(t, path)
		poll, last := d.Poll(), ""
		look := func() (changed bool) {
			t.Helper()
			now, err := poll(t.Context())
			must(t, err)
			changed, last = now != last, now
			return changed
		}
		quiet := func(seconds int) {
			t.Helper()
			for range seconds {
				time.Sleep(time.Second)
				if look() {
					t.Fatal("it has changed")
				}
			}
		}
		look()
		quiet(12)
		for _, by := range []*DB{d, other} {
			addDay(t, by)
			if !look() {
				t.Error("a commit was not noticed at once")
			}
			quiet(12)
		}

		begun := time.Now()
		<-d.turn // every query waits for the turn
		time.AfterFunc(7*time.Second, func() { d.turn <- struct{}{} })
		quiet(5)
		if took := time.Since(begun); took > 5*time.Second {
			t.Error("SQLite was asked though the log is as it was")
		}
		time.Sleep(3 * time.Second)

		// A commit becomes visible only after its fsync, however long that takes. Until then the log looks unchanged.
		if err := other.Do(t.Context(), "begin the log again", func(c *Conn) error {
			return c.Query(func(Row) {}, "PRAGMA wal_checkpoint(RESTART)")
		}); err != nil {
			t.Fatal(err)
		}
		look()
		quiet(12)
		before, err := os.Stat(path + "-wal")
		must(t, err)
		addDay(t, other)
		must(t, os.Chtimes(path+"-wal", time.Time{}, before.ModTime()))
		if now, err := os.Stat(path + "-wal"); err != nil || now.Size() != before.Size() {
			t.Fatalf("the log has %v, want the size of before (%v)", now, err)
		}
		if look() {
			t.Fatal("SQLite was asked though the log is as it was")
		}
		for n := 0; !look(); n++ {
			if n == 10 {
				t.Fatal("a commit was not noticed within 10 s")
			}
			time.Sleep(time.Second)
		}
	})
}

func addDay(t *testing.T, d *DB) {
	t.Helper()
	err := d.Transaction(t.Context(), "write", "IMMEDIATE", func(c *Conn) error {
		_, err := c.Exec("INSERT INTO days (text) VALUES (?)", "long")
		return err
	})
	must(t, err)
}

func TestQueriesAreKept(t *testing.T) {
	t.Parallel()
	d := newDB(t, filepath.Join(t.TempDir(), "diary.db"))
	const insert = "INSERT INTO days (n, text) VALUES (?, ?) RETURNING n"
	for i := range 3 {
		err := d.Do(t.Context(), "write", func(c *Conn) error {
			got, err := c.Number(insert, i, "x")
			if err == nil && got != int64(i) {
				err = fmt.Errorf("got %d, want %d", got, i)
			}
			if _, perr := c.Number("PRAGMA user_version"); perr != nil {
				return perr
			}
			for query := range c.kept {
				if strings.HasPrefix(query, "PRAGMA") {
					t.Errorf("%s is kept, which SQLite runs when it parses it", query)
				}
			}
			if c.kept[insert] == nil || len(c.kept) > 2 { // Open counts the tables, which is the other query
				t.Errorf("kept are %v, want the insert", c.kept)
			}
			return err
		})
		must(t, err)
	}
	if n := days(t, d); n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
	err := d.Do(t.Context(), "write", func(c *Conn) error {
		_, err := c.Exec("INSERT INTO days (n) VALUES (?)", 1)
		return err
	})
	var e *Error
	if !errors.As(err, &e) || e.Op != "write" {
		t.Errorf("got %v, want an Error: there is such a day", err)
	}
}

// A query may be run again while its rows are being read, and more queries can be used than are kept.
func TestKeptQueriesNestAndAreLimited(t *testing.T) {
	t.Parallel()
	d := newDB(t, filepath.Join(t.TempDir(), "diary.db"))
	run(t, d, "INSERT INTO days (n) VALUES (1), (2), (3)")
	err := d.Do(t.Context(), "read", func(c *Conn) error {
		const query = "SELECT n FROM days WHERE n<=? ORDER BY n"
		var got []int64
		var inner error
		err := c.Query(func(r Row) {
			list, err := All(c, func(r Row) int64 { return r.Int(0) }, query, r.Int(0))
			got, inner = append(got, list...), errors.Join(inner, err)
		}, query, 3)
		if want := []int64{1, 1, 2, 1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for i := range 2 * maxKept {
			n, err := c.Number(fmt.Sprintf("SELECT count(*)+%d FROM days WHERE n<>?", i), 2)
			if n != int64(i+2) {
				inner = errors.Join(inner, fmt.Errorf("got %d, want %d: %v", n, i+2, err))
			}
		}
		if len(c.kept) != maxKept {
			t.Errorf("%d queries are kept, want %d", len(c.kept), maxKept)
		}
		return errors.Join(err, inner)
	})
	must(t, err)
}

func TestValues(t *testing.T) {
	t.Parallel()
	d := newDB(t, filepath.Join(t.TempDir(), "diary.db"))
	at := time.Date(2026, 5, 1, 2, 3, 4, 5000, time.UTC)
	type values struct {
		text          string
		n             int64
		yes, no       bool
		blob, none    []byte
		at, never     time.Time
		mistyped, big int64
	}
	got, err := Select(t.Context(), d, "read", func(r Row) values {
		return values{r.Text(0), r.Int(1), r.Bool(2), r.Bool(3), r.Blob(4), r.Blob(5), r.Time(6), r.Time(7), r.Int(0), r.Int(8)}
	}, "SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE typeof(?6)='blob'", "a", 7, true, false, []byte("b"), []byte(nil), at.UnixMicro(), nil, int64(1)<<62)
	want := values{text: "a", n: 7, yes: true, blob: []byte("b"), at: at, big: 1 << 62}
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// Several processes can make one database at once: each one that finds the file empty asks again while another makes
// it.
func TestMadeByManyAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		path := filepath.Join(t.TempDir(), "diary.db")
		start := make(chan struct{})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				<-start
				d, err := Open(t.Context(), path, aFormat())
				if err != nil {
					t.Error(err)
					return
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		all.Wait()
	}
}

// The process that waited for the lock finds that the upgrade is done.
func TestUpgradeThatAnotherProcessMade(t *testing.T) {
	t.Parallel()
	d := newDB(t, filepath.Join(t.TempDir(), "diary.db"))
	must(t, d.Do(t.Context(), "upgrade", func(c *Conn) error { return upgrade(c, d.Path(), aFormat()) }))
	if all, err := copies(d.Path()); err != nil || len(all) > 0 {
		t.Errorf("copies %q, %v", all, err)
	}
}

func TestCreateAndSetup(t *testing.T) {
	t.Parallel()
	format := aFormat()
	format.Create, format.Setup = "PRAGMA auto_vacuum=INCREMENTAL", "PRAGMA synchronous=NORMAL"
	path := filepath.Join(t.TempDir(), "diary.db")
	for range 2 {
		d, err := Open(t.Context(), path, format)
		must(t, err)
		for pragma, want := range map[string]int64{"auto_vacuum": 2, "synchronous": 1, "user_version": 1} {
			err := d.Do(t.Context(), "look", func(c *Conn) error {
				got, err := c.Number("PRAGMA " + pragma)
				if err == nil && got != want {
					t.Errorf("%s is %d, want %d", pragma, got, want)
				}
				return err
			})
			must(t, err)
		}
		must(t, d.Close())
	}
}

// A database of another application is refused.
func TestOneIsNotTakenForAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "diary.db")
	newDB(t, path)
	other := aFormat()
	other.Application++
	_, err := Open(t.Context(), path, other)
	wantError(t, err, ErrForeign)
}

func TestWaitingForATurnEndsWithTheContext(t *testing.T) {
	t.Parallel()
	d := newDB(t, filepath.Join(t.TempDir(), "diary.db"))
	<-d.turn
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.Do(ctx, "wait", func(*Conn) error { return nil }) }()
	cancel()
	wantError(t, <-done, context.Canceled)
	d.turn <- struct{}{}
	days(t, d)
}

func TestWindowsPathsBecomeURIs(t *testing.T) {
	t.Parallel()
	// filepath.ToSlash returns such paths on Windows.
	for path, want := range map[string]string{
		"C:/Users/Ann B/x.db": "file:///C:/Users/Ann%20B/x.db",
		"//host/share/x.db":   "file:////host/share/x.db",
		"/home/x?y.db":        "file:///home/x%3Fy.db",
	} {
		if got := uri(path); got != want {
			t.Errorf("uri(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestErrorsSayWhatWhereAndWhatNext(t *testing.T) {
	t.Parallel()
	for _, kind := range []error{ErrBusy, ErrFull, ErrCorrupt, ErrForeign, ErrDevelopment, ErrMoved, ErrReadOnly, ErrAccess, ErrDisk} {
		err := &Error{Name: "diary", Op: "write", Path: "/x/diary.db", Kind: kind, Err: fs.ErrInvalid}
		text := err.Error()
		for _, part := range []string{"diary: write in /x/diary.db: ", kind.Error(), fs.ErrInvalid.Error(), "; "} {
			if !strings.Contains(text, part) {
				t.Errorf("%q does not say %q", text, part)
			}
		}
		wantError(t, err, kind)
		wantError(t, err, fs.ErrInvalid)
	}
	for _, test := range []struct {
		err  Error
		want string
	}{
		{Error{Kind: ErrCorrupt, UsersKnown: true, lost: "lost are then the days"}, "it was left as it is: restore a copy, or move it and its -wal and -shm files away to begin a new one; lost are then the days"},
		{Error{Kind: ErrCorrupt}, "it was left as it is: first end all teambridge processes, the service too, then restore a copy, or move it"},
		{Error{Kind: ErrCorrupt, UsersKnown: true, Users: []Process{{7, "teambridge serve"}, {8, ""}}}, "first end process 7 (teambridge serve) and process 8, then restore a copy"},
		{Error{Kind: ErrDevelopment, UsersKnown: true, Users: []Process{{7, "teambridge serve"}}, lost: "lost are then the days"},
			"made by a development version of teambridge, from before the first release; it was left as it is: " +
				"first end process 7 (teambridge serve), then move it and its -wal and -shm files away to begin a new one; lost are then the days"},
	} {
		if text := test.err.Error(); !strings.Contains(text, test.want) {
			t.Errorf("%q does not say %q", text, test.want)
		}
	}
	unknown := &Error{Name: "diary", Op: "write", Path: "/x", Err: fs.ErrInvalid}
	if got, want := unknown.Error(), "diary: write in /x: invalid argument"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// SQLite prepares no statement of the databases again for each value of its limit.
func TestPreparedOnce(t *testing.T) {
	limit := regexp.MustCompile(`LIMIT \?\d*($|[^+\d])`)
	for _, pattern := range []string{"../*/*.go", "../*/*.sql"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(paths, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			must(t, err)
			if found := limit.Find(text); found != nil && filepath.Base(path) != "conn.go" {
				t.Errorf("%s: %q, not LIMIT ?+0", path, found)
			}
		}
	}
}

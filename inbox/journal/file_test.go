package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox/sqlite"
)

// uses has every method that reads or writes the file.
func uses(j *Journal, s Snapshot) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Observe":         func(ctx context.Context) error { _, err := j.Messages.Observe(ctx, s); return err },
		"Messages":        func(ctx context.Context) error { return first(j.Messages.All(ctx, Query{})) },
		"Search":          func(ctx context.Context) error { return first(j.Messages.Search(ctx, "word", Query{})) },
		"Receipts":        func(ctx context.Context) error { return first(j.Receipts.All(ctx, Query{})) },
		"Receipt":         func(ctx context.Context) error { _, _, err := j.Receipts.Receipt(ctx, aKey("1")); return err },
		"Verified":        func(ctx context.Context) error { _, err := j.Receipts.Verified(ctx, aKey("2"), at(1)); return err },
		"Changes":         func(ctx context.Context) error { _, err := j.Messages.Changes(ctx, 0, 10); return err },
		"Last":            func(ctx context.Context) error { _, err := j.Last(ctx); return err },
		"Inboxes":         func(ctx context.Context) error { _, err := j.Messages.Inboxes(ctx, Query{}); return err },
		"RecordEnvelopes": func(ctx context.Context) error { _, err := j.Envelopes.Record(ctx, said("a", 1, "word")); return err },
		"Envelopes":       func(ctx context.Context) error { return first(j.Envelopes.All(ctx, EnvelopeQuery{})) },
		"LastEnvelope": func(ctx context.Context) error {
			_, err := j.Envelopes.Last(ctx, said("", 0, "").InboxKey, "s1")
			return err
		},
		"Export":          func(ctx context.Context) error { return j.Export(ctx, &bytes.Buffer{}, Query{}) },
		"SearchEnvelopes": func(ctx context.Context) error { return first(j.Envelopes.Search(ctx, "word", EnvelopeQuery{})) },
		"PruneEnvelopes":  func(ctx context.Context) error { _, err := j.PruneEnvelopes(ctx, at(100)); return err },
		"ObserveTasks": func(ctx context.Context) error {
			_, err := j.Tasks.Observe(ctx, "/r", TaskLook{List: "l", At: at(1)})
			return err
		},
		"TaskChanges": func(ctx context.Context) error { _, _, err := j.Tasks.Changes(ctx, TaskQuery{}); return err },
		"AnswerTo":    func(ctx context.Context) error { _, _, err := j.Messages.AnswerTo(ctx, "f"); return err },
		"Prune":       func(ctx context.Context) error { _, err := j.Prune(ctx, at(100), 0); return err },
	}
}

func first[T any](seq func(func(T, error) bool)) (err error) {
	for _, err = range seq {
		break
	}
	return err
}

func TestClosedAndEnded(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	s := look(t, 1, row("word"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, use := range uses(j, s) {
		if err := use(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", name, err)
		}
	}
	if n := number(t, j, "SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d messages, want none", n)
	}
	must(t, j.Close())
	must(t, j.Close())
	for name, use := range uses(j, s) {
		if err := use(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}

// A writer that waits for another one too long fails with ErrBusy. With the bubble's clock, waiting takes no time.
func TestLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) {
		holder, j := mustOpen(t, path), mustOpen(t, path)
		s := look(t, 1, row("word"))
		must(t, run(holder, "BEGIN IMMEDIATE"))
		for name, use := range uses(j, s) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := use(ctx)
			cancel()
			switch name {
			case "Observe", "Verified", "RecordEnvelopes", "ObserveTasks", "Prune", "PruneEnvelopes":
				var e *Error
				if !errors.As(err, &e) || e.Kind != ErrBusy || !strings.Contains(err.Error(), path) {
					t.Errorf("%s: %v, want ErrBusy with the path", name, err)
				}
			default: // reading does not wait for a writer
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		done := make(chan error)
		go func() {
			_, err := j.Messages.Observe(t.Context(), s)
			done <- err
		}()
		synctest.Wait()
		must(t, run(holder, "COMMIT"))
		must(t, <-done)
		if got := texts(messages(t, j, Query{})); got != "word" {
			t.Errorf("recorded %q, want the word once", got)
		}
	})
}

// A limit of SQLite simulates the full disk.
func TestFull(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	observe(t, j, look(t, 1, row("before")))
	must(t, run(j, fmt.Sprintf("PRAGMA max_page_count=%d", number(t, j, "PRAGMA page_count")+2)))
	big := look(t, 2, row("before"), row(strings.Repeat("word ", 20_000)), row("after"))
	for range 2 {
		_, err := j.Messages.Observe(t.Context(), big)
		wantError(t, err, sqlite.ErrFull)
	}
	if got := texts(messages(t, j, Query{})); got != "before" {
		t.Errorf("recorded %.50q, want only what was there", got)
	}
	must(t, run(j, "PRAGMA max_page_count=100000"))
	if o := observe(t, j, big); len(o.Changes) != 2 || o.Changes[0].Seq != 2 {
		t.Errorf("with space again: %.100q", short(o.Changes))
	}
	sound(t, j)
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := mustOpen(t, path)
	observe(t, j, look(t, 1, row("word")))
	must(t, run(j, "PRAGMA query_only=1"))
	for name, use := range uses(j, look(t, 2, row("word"), row("more"))) {
		err := use(t.Context())
		switch name {
		case "Observe", "Verified", "RecordEnvelopes", "ObserveTasks", "Prune", "PruneEnvelopes":
			wantError(t, err, sqlite.ErrReadOnly)
		default:
			must(t, err)
		}
	}
	must(t, run(j, "PRAGMA query_only=0"))
	wantChanges(t, observe(t, j, look(t, 2, row("word"), row("more"))).Changes, "2 appeared more#1")

	if os.Getuid() == 0 || runtime.GOOS == "windows" {
		return // no mode prevents them from writing
	}
	must(t, j.Close())
	must(t, os.Chmod(path, 0o400))
	_, err := Open(t.Context(), path)
	wantError(t, err, sqlite.ErrReadOnly)
}

func TestDevelopmentVersionsAreRefused(t *testing.T) {
	t.Parallel()
	for mark, newest := range map[int]int{1952598606: 7, 1952598639: 4, 0x74624a31: 1, 0x74624a32: 1} {
		for _, version := range []int{1, newest} {
			path := filepath.Join(t.TempDir(), "journal.db")
			j := mustOpen(t, path)
			observe(t, j, look(t, 1, row("word")))
			must(t, run(j, fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", mark, version)))
			must(t, j.Close())
			before, err := os.ReadFile(path)
			must(t, err)
			_, err = Open(t.Context(), path)
			wantError(t, err, sqlite.ErrDevelopment)
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, before) {
				t.Errorf("version %d of %d: the file was changed: %v", version, mark, err)
			}
		}
	}
}

func TestFileIsSetUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "journal.db")
	j := mustOpen(t, path)
	for pragma, want := range map[string]string{"synchronous": "1", "journal_mode": "wal", "auto_vacuum": "2"} {
		must(t, j.db.Do(t.Context(), "test", func(c *sqlite.Conn) error {
			return c.Query(func(v sqlite.Row) {
				if got := cmp.Or(v.Text(0), strconv.FormatInt(v.Int(0), 10)); got != want {
					t.Errorf("%s is %s, want %s", pragma, got, want)
				}
			}, "PRAGMA "+pragma)
		}))
	}
	for name, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600} {
		info, err := os.Stat(name)
		must(t, err)
		if got := info.Mode().Perm(); got != want && runtime.GOOS != "windows" {
			t.Errorf("%s: mode %o, want %o", name, got, want)
		}
	}
}

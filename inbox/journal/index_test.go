package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox/sqlite"
	"teambridge/teams/winetest"
)

// inIndex brings the index of a journal up to date, checks that it is sound, and returns its numbers.
func inIndex(t testing.TB, j *Journal) (list []int64) {
	t.Helper()
	must(t, j.withIndex(t.Context(), func(db *sqlite.DB) error {
		err := db.Do(t.Context(), "test", func(c *sqlite.Conn) error {
			_, err := c.Exec("INSERT INTO words (words) VALUES ('integrity-check')")
			return err
		})
		if err == nil {
			list, err = sqlite.Select(t.Context(), db, "test", func(v sqlite.Row) int64 { return v.Int(0) }, "SELECT rowid FROM words ORDER BY rowid")
		}
		return err
	}))
	return list
}

// content returns the content of a file of the index, nil if there is none.
func (x *index) content(t testing.TB, suffix string) []byte {
	t.Helper()
	data, err := os.ReadFile(x.path() + suffix)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return data
}

// Whatever happens to the index, a search finds everything.
func TestIndexIsMadeAgain(t *testing.T) {
	t.Parallel()
	other := newJournal(t)
	observe(t, other, look(t, 1, row("needle"), row("hay"), row("☃")))
	record(t, other, said("x", 1, "needle"), said("y", 2, "needle"), said("z", 3, "needle"))
	search(t, other, "needle", Query{})
	must(t, other.Close())
	another := other.index.content(t, "")

	for name, damage := range map[string]func(path string) error{
		"as it was": func(string) error { return nil },
		"deleted":   os.Remove,
		"garbage": func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600)
		},
		"empty": func(path string) error { return os.Truncate(path, 0) },
		"cut":   func(path string) error { return os.Truncate(path, 3*4096) },
		"overwritten": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, append(data[:4096], bytes.Repeat([]byte{0xa5}, len(data)-4096)...), 0o600)
		},
		"of another journal":       func(path string) error { return os.WriteFile(path, another, 0o600) },
		"of a newer version":       func(path string) error { return pragma(path, "user_version=1000") },
		"of a development version": func(path string) error { return pragma(path, "application_id=0x74624931") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			finds := func(j *Journal, messages, signs, envelopes string) {
				t.Helper()
				if got := found(search(t, j, "needle", Query{})); got != messages {
					t.Errorf("found messages %q, want %q", got, messages)
				}
				if got := found(search(t, j, "☃", Query{})); got != signs {
					t.Errorf("found messages %q with the sign, want %q", got, signs)
				}
				if got := fmt.Sprint(searchEnvelopes(t, j, "needle", EnvelopeQuery{})); got != envelopes {
					t.Errorf("found envelopes %q, want %q", got, envelopes)
				}
			}
			observe(t, j, look(t, 1, row("a needle"), row("hay"), row("a needle ☃")))
			record(t, j, said("a", 2, "the needle"), said("b", 3, "hay"))
			finds(j, "3 1", "3", "[a: the needle]")
			must(t, j.Close())
			must(t, damage(j.index.path()))

			j = mustOpen(t, j.db.Path())
			finds(j, "3 1", "3", "[a: the needle]")
			observe(t, j, look(t, 4, row("a needle"), row("hay"), row("a needle ☃"), row("needle")))
			finds(j, "6 3 1", "3", "[a: the needle]")
			sound(t, j)
		})
	}
}

// pragma changes the header of a database.
func pragma(path, set string) error {
	db, err := sqlite.Open(context.Background(), path, (&index{journal: filepath.Join(filepath.Dir(path), "journal.db")}).format())
	if err != nil {
		return err
	}
	return errors.Join(db.Do(context.Background(), "test", func(c *sqlite.Conn) error {
		_, err := c.Exec("PRAGMA " + set)
		return err
	}), db.Close())
}

// A search is right if an older copy of the journal has other records under the numbers that the index has.
func TestIndexOfARestoredJournal(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	path := j.db.Path()
	observe(t, j, look(t, 1, row("first")))
	must(t, j.Close())
	copied, err := os.ReadFile(path)
	must(t, err)
	j = mustOpen(t, path)
	observe(t, j, look(t, 2, row("first"), row("lost")))
	if got := found(search(t, j, "lost", Query{})); got != "2" {
		t.Errorf("found %q, want the second", got)
	}
	must(t, j.Close())
	must(t, os.WriteFile(path, copied, 0o600))

	j = mustOpen(t, path)
	if got := found(search(t, j, "first", Query{})); got != "1" {
		t.Errorf("found %q in the copy, want the first", got)
	}
	observe(t, j, look(t, 3, row("first"), row("other")))
	if got := found(search(t, j, "other", Query{})) + found(search(t, j, "lost", Query{})); got != "2" {
		t.Errorf("found %q, want the second under its new text alone", got)
	}
	must(t, j.Close())

	// As many records as in the index, but other ones.
	must(t, os.WriteFile(path, copied, 0o600))
	j = mustOpen(t, path)
	observe(t, j, look(t, 4, row("first"), row("third")))
	if got := found(search(t, j, "third", Query{})) + found(search(t, j, "other", Query{})); got != "2" {
		t.Errorf("found %q, want the second under its new text alone", got)
	}
	sound(t, j)
}

// All processes can bring the index up to date at the same time, even while one deletes it.
func TestIndexOfMany(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	const many = 4
	journals := make([]*Journal, many)
	for i := range journals {
		journals[i] = mustOpen(t, path)
	}
	var rows []string
	for i := range 3 * indexPage {
		rows = append(rows, row(fmt.Sprint("needle ", i)))
	}
	for round := range 3 {
		observe(t, journals[0], look(t, float64(round), rows[:(round+1)*indexPage]...))
		if round == 1 && runtime.GOOS != "windows" { // where a file that is open cannot be deleted
			must(t, journals[0].index.remove())
		}
		var searches sync.WaitGroup
		for _, j := range journals {
			searches.Go(func() {
				n := 0
				for _, err := range j.Messages.Search(t.Context(), "needle", Query{}) {
					if err != nil {
						t.Error(err)
						return
					}
					n++
				}
				if n != (round+1)*indexPage {
					t.Errorf("found %d, want %d", n, (round+1)*indexPage)
				}
			})
		}
		searches.Wait()
	}
	sound(t, journals[1])
}

// Only a search needs the index, or waits for it.
func TestNothingElseNeedsTheIndex(t *testing.T) {
	t.Parallel()
	none := newJournal(t)
	observe(t, none, look(t, 1, row("word")))
	if _, err := os.Stat(none.index.path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is an index (%v), and nobody has searched", err)
	}
	unusable := newJournal(t)
	must(t, os.Mkdir(unusable.index.path(), 0o700))
	for name, use := range uses(unusable, look(t, 1, row("word"))) {
		// In any order: ErrPruned is no fault here.
		if err := use(t.Context()); (err != nil && !errors.Is(err, ErrPruned)) != strings.HasPrefix(name, "Search") {
			t.Errorf("%s: %v", name, err)
		}
	}

	// With the bubble's clock, waiting takes no time.
	path := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) {
		j := mustOpen(t, path)
		search(t, j, "word", Query{})
		holder, err := sqlite.Open(t.Context(), j.index.path(), j.index.format())
		must(t, err)
		defer holder.Close()
		must(t, holder.Do(t.Context(), "test", func(c *sqlite.Conn) error {
			_, err := c.Exec("BEGIN IMMEDIATE")
			return err
		}))
		observe(t, j, look(t, 1, row("word")))
		for name, use := range uses(j, look(t, 2, row("word"), row("more"))) {
			start := time.Now()
			switch err := use(t.Context()); {
			case strings.HasPrefix(name, "Search"):
				wantError(t, err, ErrBusy)
			case strings.HasPrefix(name, "Prune"): // which removes words from the index
			case err != nil && !errors.Is(err, ErrPruned) || time.Since(start) != 0:
				t.Errorf("%s waited %v: %v", name, time.Since(start), err)
			}
		}
	})
}

// Pruned words are in no file of the index, even if the process was killed before it removed them there.
func TestPrunedIsNotInTheIndex(t *testing.T) {
	t.Parallel()
	for name, prune := range map[string]func(*Journal) error{
		"pruned": func(*Journal) error { return nil },
		"killed": func(j *Journal) error {
			var p Pruned
			_, err := j.drop(t.Context(), &p, pruneMessages, at(10).UnixMicro(), pruneStep)
			if err == nil {
				_, err = j.drop(t.Context(), &p, pruneEnvelopes, at(10).UnixMicro(), pruneStep)
			}
			return errors.Join(err, j.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			observe(t, j, look(t, 1, row("the secretword of one"), row("harmless")))
			record(t, j, said("a", 2, "the secretword of another"))
			if got := found(search(t, j, "secretword", Query{})) + fmt.Sprint(len(searchEnvelopes(t, j, "secretword", EnvelopeQuery{}))); got != "11" {
				t.Fatalf("found %s, want one of each", got)
			}
			observe(t, j, look(t, 3, row("harmless")))
			must(t, prune(j))
			if name == "killed" {
				j = mustOpen(t, j.db.Path())
				observe(t, j, look(t, 20)) // so that Prune has work to do
			}
			_, err := j.PruneEnvelopes(t.Context(), at(30))
			must(t, err)
			_, err = j.Prune(t.Context(), at(30), 0)
			must(t, err)
			for _, suffix := range []string{"", "-wal"} {
				if content := j.index.content(t, suffix); bytes.Contains(content, []byte("secretword")) {
					t.Errorf("index.db%s still has the word", suffix)
				}
			}
			if n := number(t, j, "SELECT count(*) FROM stale"); n != 0 {
				t.Errorf("%d records are still to be taken out", n)
			}
			if got := found(search(t, j, "secretword", Query{})); got != "" {
				t.Errorf("found %s", got)
			}
			sound(t, j)
		})
	}
}

func TestTextOfAnEnvelope(t *testing.T) {
	t.Parallel()
	for event, want := range map[string]string{
		`{"t":"text","text":"a","thinking":true}`:                        "a",
		`{"t":"service","text":"b"}`:                                     "b",
		`{"t":"tool-call-start","call":"c","name":"Bash","title":"t d"}`: "t d",
		`{"t":"file","ref":"r","name":"f","size":1}`:                     "f",
		`{"t":"tool-call-end","call":"c"}`:                               "",
		`{"t":"turn-end","status":"completed"}`:                          "",
		`{"t":7}`:                                                        "",
	} {
		e := Envelope{Role: "agent", Raw: []byte(`{"id":"x","ev":` + event + `}`)}
		if got := e.Text(); got != want {
			t.Errorf("%s: %q, want %q", event, got, want)
		}
		if e.Role = "user"; e.Text() != "" {
			t.Errorf("%s of a user: %q, want nothing", event, e.Text())
		}
	}
}

// What the journal has deleted is taken out of the index until its file certainly lacks it: not while another process
// reads it.
func TestPrunedWhileTheIndexIsRead(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	observe(t, j, look(t, 1, row("the secretword")))
	search(t, j, "secretword", Query{})
	observe(t, j, look(t, 3))
	stale := func() int64 { return number(t, j, "SELECT count(*) FROM stale") }
	must(t, j.index.db.Transaction(t.Context(), "test", "DEFERRED", func(c *sqlite.Conn) error {
		if _, err := c.Number("SELECT count(*) FROM words"); err != nil {
			return err
		}
		other := mustOpen(t, j.db.Path())
		_, err := other.Prune(t.Context(), at(30), 0)
		return err
	}))
	if n := stale(); n != 1 {
		t.Errorf("%d records are still to be taken out, want 1", n)
	}
	search(t, j, "secretword", Query{})
	if n := stale(); n != 0 {
		t.Errorf("%d records are still to be taken out", n)
	}
}

// A log that is deleted while a process uses the index stops no search, in this process or another.
func TestIndexWithoutItsLog(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "a file that is open cannot be deleted")
	j := newJournal(t)
	observe(t, j, look(t, 1, row("a needle")))
	search(t, j, "needle", Query{})
	must(t, os.Remove(j.index.path()+"-wal"))
	other := mustOpen(t, j.db.Path())
	for n, j := range []*Journal{other, j, other} {
		rows := []string{row("a needle"), row("needle 2"), row("needle 3"), row("needle 4")}
		observe(t, j, look(t, float64(2+n), rows[:2+n]...))
		if got, want := found(search(t, j, "needle", Query{})), []string{"2 1", "3 2 1", "4 3 2 1"}[n]; got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	sound(t, other)
}

package journal

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The text of a position can be parsed back, and no other text is a position.
func TestPositions(t *testing.T) {
	t.Parallel()
	for _, p := range []Position{{"9f86d081884c7d65", 0}, {"a", 1<<63 - 1}} {
		if got, ok := ParsePosition(p.String()); !ok || got != p {
			t.Errorf("%v became %v, %v", p, got, ok)
		}
	}
	for _, s := range []string{"", "-", "5", "-5", "a-", "a--5", "a-5x", "a-+5", "a-9223372036854775808"} {
		if p, ok := ParsePosition(s); ok {
			t.Errorf("%q is %v", s, p)
		}
	}
}

// positions returns the positions of all changes.
func positions(t *testing.T, j *Journal) (list []Position) {
	t.Helper()
	changes, err := j.Messages.Changes(t.Context(), 0, 1000)
	must(t, err)
	for _, c := range changes {
		at, err := j.PositionAt(t.Context(), c.Seq)
		must(t, err)
		if p := (Position{c.Epoch, c.Seq}); p != at {
			t.Errorf("change %v is at %v", p, at)
		}
		list = append(list, at)
	}
	return list
}

// knows returns for each position whether a journal knows it.
func knows(t *testing.T, j *Journal, list []Position) (known []bool) {
	t.Helper()
	for _, p := range list {
		ok, err := j.Knows(t.Context(), p)
		must(t, err)
		known = append(known, ok)
	}
	return known
}

// A journal knows a position as long as it has the history of that position, whichever process continues it. Another
// journal, or one that lost its end, does not know it, however many numbers it has.
func TestPositionsOfOneHistory(t *testing.T) {
	t.Parallel()
	dir, backup := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "journal.db")
	j := mustOpen(t, path)
	start, err := j.PositionAt(t.Context(), 0)
	must(t, err)
	observe(t, j, look(t, 1, row("a")))
	other := mustOpen(t, path)
	observe(t, other, look(t, 2, row("a"), row("b")))
	observe(t, j, look(t, 3, row("a"), row("b"), row("c")))
	list := append([]Position{start}, positions(t, j)...)
	if diff := cmp.Diff([]bool{true, true, true, true}, knows(t, other, list)); diff != "" {
		t.Errorf("known of %v (-want +got):\n%s", list, diff)
	}
	// A power cut leaves the files as they are on the disk.
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(backup, "journal.db"+suffix), data, 0o600))
	}
	observe(t, other, look(t, 4, row("a"), row("b"), row("c"), row("d")))
	observe(t, j, look(t, 5, row("a"), row("b"), row("c"), row("d"), row("e")))
	list = positions(t, j)

	back := mustOpen(t, filepath.Join(backup, "journal.db"))
	if diff := cmp.Diff([]bool{true, true, true, false, false}, knows(t, back, list)); diff != "" {
		t.Errorf("known of %v after the loss (-want +got):\n%s", list, diff)
	}
	observe(t, back, look(t, 6, row("a"), row("b"), row("c"), row("x"), row("y"), row("z")))
	if diff := cmp.Diff([]bool{true, true, true, false, false}, knows(t, back, list)); diff != "" {
		t.Errorf("known of %v when the numbers were given again (-want +got):\n%s", list, diff)
	}
	made := mustOpen(t, filepath.Join(t.TempDir(), "journal.db"))
	observe(t, made, look(t, 1, row("a"), row("b"), row("c"), row("d"), row("e"), row("f")))
	if diff := cmp.Diff([]bool{false, false, false, false, false, false}, knows(t, made, append(list, start))); diff != "" {
		t.Errorf("known of %v by another journal (-want +got):\n%s", list, diff)
	}
}

// Epochs are pruned with their changes, except for the epoch of the oldest position that is still known.
func TestPruneForgetsEpochs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	for n, name := range []string{"a", "b", "c"} {
		j := mustOpen(t, path)
		observe(t, j, look(t, float64(2*n+1), row(name)))
		observe(t, j, look(t, float64(2*n+2)))
		must(t, j.Close())
	}
	j := mustOpen(t, path)
	list := positions(t, j)
	_, err := j.Prune(t.Context(), at(5).Add(-time.Microsecond), 0)
	must(t, err)
	if n := number(t, j, "SELECT count(*) FROM epochs"); n != 2 {
		t.Errorf("%d epochs are left, want that of b, where the pruned ends, and that of c", n)
	}
	last := list[len(list)-1]
	for _, p := range list[3:] { // b is gone from its file, and after that c
		if ok, err := j.Knows(t.Context(), p); !ok || err != nil {
			t.Errorf("%v of up to %v: %v, %v", p, last, ok, err)
		}
	}
}

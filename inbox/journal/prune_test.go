package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPruneByAge(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	observe(t, j, look(t, 1, row("old"), row("kept"), row("present")))
	observe(t, j, look(t, 2, row("kept"), row("present")))
	observe(t, j, look(t, 3, row("present")))
	for i, id := range []string{"old", "late"} {
		_, err := j.Receipts.Verified(t.Context(), aKey(id), at(2.5+float64(i)))
		must(t, err)
	}
	p, err := j.Prune(t.Context(), at(3), 0)
	must(t, err)
	if p.Messages != 1 || p.Receipts != 1 {
		t.Errorf("pruned %+v, want 1 message and 1 receipt", p)
	}
	if got := texts(messages(t, j, Query{})); got != "kept present" {
		t.Errorf("left %q, want what is in the file or was not long ago", got)
	}
	if hits := search(t, j, "old", Query{}); len(hits) != 0 {
		t.Errorf("still found: %v", hits)
	}
	if hits := search(t, j, "kept", Query{}); len(hits) != 1 {
		t.Errorf("%d hits, want 1", len(hits))
	}
	if _, found, err := j.Receipts.Receipt(t.Context(), aKey("late")); err != nil || !found {
		t.Errorf("the later receipt: %v, %v", found, err)
	}
	// Rows that stayed in the file are no change, and a new row gets a number of its own.
	wantChanges(t, observe(t, j, look(t, 4, row("present"), row("old"))).Changes, "8 appeared old#1")

	// 1 appeared old, 4 gone old, 6 verified: a reader that has not seen these has a gap.
	for after, gap := range map[int64]bool{0: true, 4: true, 5: true, 6: false, 7: false} {
		list, err := j.Messages.Changes(t.Context(), after, 10)
		if gap {
			wantError(t, err, ErrPruned)
		} else if err != nil || len(list) != int(8-after) {
			t.Errorf("after %d: %s, %v", after, short(list), err)
		}
	}
}

func TestPruneAllKeepsCounting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := mustOpen(t, path)
	observe(t, j, look(t, 1, row("a")))
	observe(t, j, look(t, 2))
	p, err := j.Prune(t.Context(), at(10), 0)
	must(t, err)
	if p.Messages != 1 {
		t.Errorf("pruned %+v", p)
	}
	if n := number(t, j, "SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM changes) + (SELECT count(*) FROM inboxes)") + int64(len(inIndex(t, j))); n != 0 {
		t.Errorf("%d records are left, want none", n)
	}
	// Another process, and this one, which remembers the deleted inbox.
	other := mustOpen(t, path)
	wantChanges(t, observe(t, other, look(t, 11, row("a"))).Changes, "3 appeared a#1")
	wantChanges(t, observe(t, j, look(t, 12, row("a"), row("b"))).Changes, "4 appeared b#1")
}

func TestPruneBySize(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := mustOpen(t, path)
	const batches, each = 12, 200
	text := func(n int) string {
		return fmt.Sprintf("number%d %s", n, strings.Repeat(fmt.Sprintf("word%d ", n%97), 40))
	}
	for b := range batches {
		var rows []string
		for i := range each {
			rows = append(rows, row(text(b*each+i)))
		}
		observe(t, j, look(t, float64(b), rows...))
	}
	size := func() int64 {
		info, err := os.Stat(path)
		must(t, err)
		log, err := os.Stat(path + "-wal")
		must(t, err)
		return info.Size() + log.Size()
	}
	// The last batch is in the file, and all others are gone, in their order.
	all := number(t, j, "SELECT page_count*4096 FROM pragma_page_count")
	limit := all / 2
	p, err := j.Prune(t.Context(), at(-1000), limit)
	must(t, err)
	if p.Bytes > limit || p.Bytes < limit*7/10 {
		t.Errorf("pruned %+v of %d bytes, want a little under %d left", p, all, limit)
	}
	if got := size(); got > limit {
		t.Errorf("%d bytes on the disk, want at most %d", got, limit)
	}
	left := messages(t, j, Query{})
	if len(left) != batches*each-int(p.Messages) || left[0].Seq == 1 {
		t.Errorf("%d messages are left from %d on, %d pruned", len(left), left[0].Seq, p.Messages)
	}
	for i, m := range left {
		if want := text(batches*each - len(left) + i); m.Text != want {
			t.Fatalf("message %d of those left is %.20q, want %.20q: the oldest go first", i, m.Text, want)
		}
	}
	// No limit removes messages that are in the file.
	p, err = j.Prune(t.Context(), at(-1000), 1)
	must(t, err)
	if got := number(t, j, "SELECT count(*) FROM messages"); got != each || p.Bytes <= 1 {
		t.Errorf("%d messages are left, %+v; want the %d that are in the file", got, p, each)
	}
	if hits := search(t, j, fmt.Sprintf("number%d", batches*each-1), Query{}); len(hits) != 1 {
		t.Errorf("%d hits for a message that is left, want 1", len(hits))
	}
	sound(t, j)
	// Nothing is to be pruned.
	if p, err = j.Prune(t.Context(), at(-1000), 0); err != nil || p.Messages+p.Receipts != 0 {
		t.Errorf("%+v, %v; want nothing done", p, err)
	}
}

package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
)

// snapshot copies a database as a power cut at this instant would leave it.
func snapshot(t *testing.T, name, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(filepath.Join(from, name+suffix))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, name+suffix), data, 0o600))
	}
}

func say(t *testing.T, l *ledger.Ledger, id string) {
	t.Helper()
	must(t, l.Deliveries.Claim(t.Context(), ledger.Delivery{UUID: id, InboxKey: post, Person: true, ID: id, Raw: []byte("text of " + id)}))
}

// send sends a message as a process does. If written is false, the process is killed afterwards.
func send(t *testing.T, l *ledger.Ledger, id string, written bool) {
	t.Helper()
	key := inbox.SendKey{InboxKey: post, ID: id}
	row := []byte(`{"from":"user","text":"text of ` + id + `","timestamp":"2026-01-01T00:00:00.000Z","messageId":"` + id + `"}`)
	must(t, l.Sends.Intend(t.Context(), ledger.Send{SendKey: key, Before: "empty", At: time.Now(), Row: row}))
	if written {
		must(t, l.Sends.Written(t.Context(), key, time.Now()))
	}
}

func commit(t *testing.T, l *ledger.Ledger, frame, delivery string) {
	t.Helper()
	must(t, l.Frames.Commit(t.Context(), ledger.Frame{UUID: frame, InboxKey: post, Kind: ledger.FrameMessage, Bytes: []byte("{}")}, delivery))
}

func wantTexts(t *testing.T, j *journal.Journal, want ...string) {
	t.Helper()
	var texts []string
	for m, err := range j.Messages.All(t.Context(), journal.Query{}) {
		must(t, err)
		texts = append(texts, m.Text)
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("messages in the history (-want +got):\n%s", diff)
	}
}

// copyAgain copies until the journal has everything, and checks that nothing is copied twice.
func copyAgain(t *testing.T, l *ledger.Ledger, j *journal.Journal) {
	t.Helper()
	_, err := j.Copy(t.Context(), l)
	must(t, err)
	if n, err := j.Copy(t.Context(), l); n != 0 || err != nil {
		t.Errorf("copied %d again, %v", n, err)
	}
}

// A power cut undoes the commits of the ledger that did not wait for the disk, while the journal, another file, has
// their events. Other events get the same numbers, and are copied anyway.
func TestLedgerLostItsEnd(t *testing.T) {
	t.Parallel()
	before, after := t.TempDir(), t.TempDir()
	l, j := open(t, before)
	say(t, l, "one")
	commit(t, l, "f1", "one")
	snapshot(t, "ledger.db", before, after)
	must(t, l.Frames.Advance(t.Context(), "f1", ledger.Accepted, ""))
	must(t, l.Frames.Advance(t.Context(), "f1", ledger.Done, ""))
	copyAgain(t, l, j)
	must(t, j.Close())
	snapshot(t, "journal.db", before, after)

	l, j = open(t, after)
	copyAgain(t, l, j) // nothing to copy: the lost events stay in the journal
	say(t, l, "two")
	copyAgain(t, l, j) // while the ledger has fewer events than the journal
	must(t, l.Frames.Advance(t.Context(), "f1", ledger.Done, ""))
	commit(t, l, "f2", "two")
	must(t, l.Frames.Advance(t.Context(), "f2", ledger.Done, ""))
	copyAgain(t, l, j)
	wantTexts(t, j, "text of one", "text of two")
	want := []string{"one claimed", "one written", "one accepted", "one done", "two claimed", "one done", "two written", "two done"}
	if diff := cmp.Diff(want, recorded(t, j)); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

// An older copy of the ledger is restored again and again, and its new events are copied even if it has more of them
// than the journal by then.
func TestLedgerRestored(t *testing.T) {
	t.Parallel()
	dir, backup := t.TempDir(), t.TempDir()
	l, j := open(t, dir)
	say(t, l, "first")
	copyAgain(t, l, j)
	must(t, l.Close())
	snapshot(t, "ledger.db", dir, backup)

	texts := []string{"text of first"}
	want := []string{"first claimed"}
	for i, round := range []string{"a", "b", "c"} {
		must(t, os.RemoveAll(filepath.Join(dir, "ledger.db-wal")))
		snapshot(t, "ledger.db", backup, dir)
		l, err := ledger.Open(t.Context(), filepath.Join(dir, "ledger.db"))
		must(t, err)
		for n := range 3 * (i + 1) { // before the next copy, each time more events than before
			id := fmt.Sprint(round, n)
			say(t, l, id)
			texts = append(texts, "text of "+id)
			want = append(want, id+" claimed")
		}
		copyAgain(t, l, j)
		must(t, l.Close())
		// Another process, which has an epoch of its own.
		l, err = ledger.Open(t.Context(), filepath.Join(dir, "ledger.db"))
		must(t, err)
		must(t, l.Deliveries.Drop(t.Context(), round+"1"))
		want = append(want, round+"1 dropped")
		copyAgain(t, l, j)
		must(t, l.Close())
	}
	wantTexts(t, j, texts...)
	if diff := cmp.Diff(want, recorded(t, j)); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

// Messages of processes that have ended are copied in the order in which they were written, and withdrawn ones are
// not.
func TestSentIsCopied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, id := range []string{"a", "b", "c"} {
		l, err := ledger.Open(t.Context(), filepath.Join(dir, "ledger.db"))
		must(t, err)
		send(t, l, id, true)
		send(t, l, id+" withdrawn", false)
		must(t, l.Sends.Withdraw(t.Context(), inbox.SendKey{InboxKey: post, ID: id + " withdrawn"}))
		must(t, l.Close())
	}
	l, j := open(t, dir)
	copyAgain(t, l, j)
	wantTexts(t, j, "text of a", "text of b", "text of c")
	must(t, j.Close())
	for _, suffix := range []string{"", "-wal", "-shm"} {
		must(t, os.RemoveAll(filepath.Join(dir, "journal.db"+suffix)))
	}
	j, err := journal.Open(t.Context(), filepath.Join(dir, "journal.db"))
	must(t, err)
	defer j.Close()
	copyAgain(t, l, j)
	wantTexts(t, j, "text of a", "text of b", "text of c")
}

// A journal that begins late, or that replaces one that was moved away, gets the events of all epochs.
func TestAllEpochsAreCopied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var want []string
	for _, id := range []string{"a", "b", "c"} {
		l, err := ledger.Open(t.Context(), filepath.Join(dir, "ledger.db"))
		must(t, err)
		say(t, l, id)
		must(t, l.Deliveries.Drop(t.Context(), id))
		must(t, l.Close())
		want = append(want, id+" claimed", id+" dropped")
	}
	l, j := open(t, dir)
	copyAgain(t, l, j)
	if diff := cmp.Diff(want, recorded(t, j)); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

// Whatever is lost or restored, and whenever it is copied: in the end the journal has each event of the ledger once,
// in the order of the ledger.
func TestAnyHistoryIsCopied(t *testing.T) {
	t.Parallel()
	for range 8 {
		seed := rand.Uint64()
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			aHistory(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func aHistory(t *testing.T, random *rand.Rand) {
	dir := t.TempDir()
	var backups []string // of both databases
	var open []*ledger.Ledger
	process := func() *ledger.Ledger {
		t.Helper()
		l, err := ledger.Open(t.Context(), filepath.Join(dir, "ledger.db"))
		must(t, err)
		open = append(open, l)
		return l
	}
	kill := func() {
		t.Helper()
		for _, l := range open {
			must(t, l.Close())
		}
		open = nil
	}
	withJournal := func(f func(*journal.Journal)) {
		t.Helper()
		j, err := journal.Open(t.Context(), filepath.Join(dir, "journal.db"))
		must(t, err)
		f(j)
		must(t, j.Close())
	}
	copyAll := func(j *journal.Journal) { copyAgain(t, process(), j) }
	process()
	withJournal(copyAll)
	for said := 0; said < 60; {
		switch n := random.IntN(20); {
		case n < 10:
			l := open[random.IntN(len(open))]
			for range 1 + random.IntN(3) {
				said++
				switch id := fmt.Sprint("d", said); random.IntN(5) {
				case 0, 1:
					say(t, l, id)
				case 2, 3:
					send(t, l, id, true)
				default:
					send(t, l, id, false)
				}
			}
		case n < 13:
			process()
		case n < 15:
			withJournal(copyAll)
		case n < 16:
			// An event that is pruned before it is copied is never copied, even if an older backup restores it.
			_, err := open[0].Prune(t.Context(), time.Now().Add(time.Hour))
			must(t, err)
			backups = nil
		case n < 18:
			backup := t.TempDir()
			for _, name := range []string{"ledger.db", "journal.db"} {
				snapshot(t, name, dir, backup)
			}
			backups = append(backups, backup)
		case len(backups) > 0:
			// The restored backup may have either database or both, from different times.
			kill()
			for _, name := range []string{"ledger.db", "journal.db"} {
				if name == "journal.db" && random.IntN(3) > 0 {
					continue
				}
				for _, suffix := range []string{"", "-wal", "-shm"} {
					must(t, os.RemoveAll(filepath.Join(dir, name+suffix)))
				}
				snapshot(t, name, backups[random.IntN(len(backups))], dir)
			}
			process()
		}
	}
	withJournal(func(j *journal.Journal) {
		copyAll(j)
		there := recorded(t, j)
		seen := map[string]bool{}
		for _, event := range there {
			if seen[event] {
				t.Errorf("%s is recorded twice", event)
			}
			seen[event] = true
		}
		texts := map[string]int{}
		for m, err := range j.Messages.All(t.Context(), journal.Query{}) {
			must(t, err)
			if texts[m.Text]++; texts[m.Text] > 1 {
				t.Errorf("%s is there twice", m.Text)
			}
		}
		events, err := open[0].Events.After(t.Context(), 0, 10_000)
		must(t, err)
		last := -1
		for _, e := range events {
			if e.Sent != "" {
				var row struct{ Text string }
				must(t, json.Unmarshal(e.Row, &row))
				if e.Sent != ledger.SentWritten || texts[row.Text] != 1 {
					t.Errorf("%s, which is %s, is there %d times", row.Text, e.Sent, texts[row.Text])
				}
				delete(texts, row.Text)
				continue
			}
			i := slices.Index(there, e.Delivery+" "+string(e.State))
			if i < 0 || i < last {
				t.Errorf("%s is recorded at %d, one before it at %d", e.Delivery, i, last)
			}
			last = max(last, i)
		}
	})
	kill()
}

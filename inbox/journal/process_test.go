package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/sqlite"
	"teambridge/relay/relaytest/killtest"
	"teambridge/teams/winetest"
)

func TestMain(m *testing.M) {
	flag.Set("rapid.checks", "25") // unless the command line says otherwise
	lastCopy = time.Minute         // a busy disk takes longer than the two seconds
	killtest.Main(m, killtest.Roles{"watch": childWatch, "forever": childForever, "record": childRecord, "copier": copyForEver, "search": childSearch})
}

// copyForEver copies in a directory until it is killed.
func copyForEver(args []string) error {
	ctx, dir := context.Background(), args[0]
	l, err := ledger.Open(ctx, filepath.Join(dir, "ledger.db"))
	if err != nil {
		return err
	}
	j, err := Open(ctx, filepath.Join(dir, "journal.db"))
	if err != nil {
		return err
	}
	fmt.Println("copying")
	for {
		if _, err := j.Copy(ctx, l); err != nil {
			return err
		}
	}
}

// childSearch searches each time that it reads a line, and prints how many messages it found.
func childSearch(args []string) error {
	j, err := Open(context.Background(), args[0])
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		n, failed := 0, error(nil)
		for _, err := range j.Messages.Search(context.Background(), "needle", Query{}) {
			n, failed = n+1, err
		}
		fmt.Println("found", n, failed)
	}
	return j.Close()
}

// A search finds everything even if the file of the index was deleted, and nothing else, while processes use it.
func TestIndexIsDeletedInUse(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "a file that is open cannot be deleted")
	path := filepath.Join(t.TempDir(), "journal.db")
	j := mustOpen(t, path)
	var all []func() string // searches of two processes
	for range 2 {
		c := killtest.Command(t.Context(), "search", path)
		in, err := c.StdinPipe()
		must(t, err)
		out, err := c.StdoutPipe()
		must(t, err)
		must(t, c.Start())
		t.Cleanup(func() { _, _ = in.Close(), c.Wait() })
		lines := bufio.NewScanner(out)
		all = append(all, func() string {
			fmt.Fprintln(in)
			lines.Scan()
			return lines.Text()
		})
	}
	var rows []string
	for n := range 10 {
		rows = append(rows, row(fmt.Sprint("needle ", n)))
		observe(t, j, look(t, float64(n), rows...))
		if n > 0 {
			must(t, os.Remove(j.index.path()))
		}
		for _, search := range all {
			if got, want := search(), fmt.Sprintf("found %d <nil>", n+1); got != want {
				t.Errorf("after %d deletions: %s, want %s", n, got, want)
			}
		}
	}
}

const (
	eachLooks = 60
	readAhead = 7 // so many of the newest rows are unread
)

// history is the inbox of an older agent at look n: it has n rows, of which the older ones are read, and every tenth
// equals the others of its kind.
func history(n int) Snapshot {
	s := Snapshot{InboxKey: inbox.Key(root, blue(), "bob"), At: at(float64(n))}
	for i := range n {
		text := fmt.Sprint("row ", i)
		if i%10 == 0 {
			text = "ten"
		}
		s.Rows = append(s.Rows, inbox.Row{From: "ann", Text: text, Read: i < n-readAhead,
			Raw: json.RawMessage(row(text, fmt.Sprintf(`"read":%v`, i < n-readAhead)))})
	}
	return s
}

// childWatch observes the same inbox as the other processes, and one of its own.
func childWatch(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := killtest.Started(); err != nil {
		return err
	}
	j, err := Open(ctx, args[0])
	if err != nil {
		return err
	}
	for n := range eachLooks {
		own := history(n)
		own.Inbox = args[1]
		if _, err := j.Messages.Observe(ctx, history(n), own); err != nil {
			return err
		}
		key := inbox.SendKey{InboxKey: inbox.InboxKey{Root: root, Team: "blue", CreatedAt: 1, Inbox: "bob"}, ID: fmt.Sprint(n)}
		if _, err := j.Receipts.Lost(ctx, key, at(float64(n)), "clobbered"); err != nil {
			return err
		}
	}
	return j.Close()
}

// If several processes observe one inbox, each row is recorded once, and its numbers are in order.
func TestManyProcessesOnOneJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "journal.db")
	const processes = 4
	killtest.AtOnce(t, processes, func(i int) *exec.Cmd { return killtest.Command(t.Context(), "watch", path, fmt.Sprint("own", i)) })

	j := mustOpen(t, path)
	names := []string{"bob"}
	for i := range processes {
		names = append(names, fmt.Sprint("own", i))
	}
	for _, name := range names {
		got := messages(t, j, Query{Inbox: name})
		if len(got) != eachLooks-1 {
			t.Errorf("%s: %d messages, want each of %d once", name, len(got), eachLooks-1)
		}
		for i, m := range got {
			read := i < eachLooks-1-readAhead
			if want := history(eachLooks).Rows[i].Text; m.Text != want || !m.GoneAt.IsZero() || m.ReadAt.IsZero() == read {
				t.Errorf("%s: message %d is %q, read %v, gone %v", name, i, m.Text, m.ReadAt, m.GoneAt)
			}
		}
	}
	for r, err := range j.Receipts.All(t.Context(), Query{}) {
		must(t, err)
		if r.State != inbox.Lost || r.Reason != "clobbered" {
			t.Errorf("receipt %+v, want lost", r)
		}
	}
	// Every number occurs once, and only numbers of receipts that changed later are missing.
	var last int64
	n := 0
	for {
		list, err := j.Messages.Changes(t.Context(), last, 100)
		must(t, err)
		if len(list) == 0 {
			break
		}
		for _, c := range list {
			if c.Seq <= last {
				t.Fatalf("number %d after %d", c.Seq, last)
			}
			last = c.Seq
		}
		n += len(list)
	}
	rows, reads := eachLooks-1, eachLooks-1-readAhead
	if want := len(names)*(rows+reads) + eachLooks; n != want {
		t.Errorf("%d changes, want %d", n, want)
	}
	if end, err := j.Last(t.Context()); err != nil || end != last {
		t.Errorf("the last number is %d, %v; want %d", end, err, last)
	}
}

// childForever observes and reports until it is killed. Each look has one more row, and every fifth has none.
func childForever(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	j, err := Open(ctx, args[0])
	if err != nil {
		return err
	}
	s := Snapshot{InboxKey: inbox.Key(root, blue(), args[1])}
	for i := 1; ctx.Err() == nil; i++ {
		s.At = at(float64(i))
		text := fmt.Sprint("row ", i)
		s.Rows = append(s.Rows, inbox.Row{From: "ann", Text: text, Raw: json.RawMessage(row(text))})
		if i%5 == 0 {
			s.Rows = nil
		}
		if _, err := j.Messages.Observe(ctx, s); err != nil {
			return err
		}
		fmt.Println(i)
	}
	return ctx.Err()
}

// After a kill, the journal is sound, and has every look that a process had reported.
func TestKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acknowledged := 0
	rounds := killtest.Rounds(t, "JOURNAL_TEST_ROUNDS", 4)
	for round := range rounds {
		path := filepath.Join(dir, "one.db")
		if round%4 == 3 {
			path = filepath.Join(t.TempDir(), "new.db") // killed while it is being made
		}
		var last [2]int
		lines := 1 + rand.N(40)
		if round%4 == 3 {
			lines = 0
		}
		watcher := func(i int) *exec.Cmd {
			return killtest.Command(t.Context(), "forever", path, fmt.Sprintf("inbox-%d-%d", round, i))
		}
		for i, said := range killtest.KillAll(t, lines, watcher(0), watcher(1)) {
			last[i] = len(said)
		}

		j := mustOpen(t, path)
		sound(t, j)
		for i, last := range last {
			acknowledged += last
			got := messages(t, j, Query{Inbox: fmt.Sprintf("inbox-%d-%d", round, i)})
			// The process can have gone one look further than it could report. Every fifth row was never seen.
			seen := last - last/5
			if len(got) != seen && len(got) != seen+1 {
				t.Errorf("%d messages after %d looks, want %d", len(got), last, seen)
			}
			for k, m := range got {
				n := k + k/4 + 1
				if m.Text != fmt.Sprint("row ", n) || m.Occurrence != 1 || m.GoneAt.IsZero() && n < last/5*5 {
					t.Errorf("message %d is %q #%d, gone %v, after %d looks", k, m.Text, m.Occurrence, m.GoneAt, last)
				}
			}
		}
	}
	if acknowledged < 5*rounds {
		t.Errorf("only %d looks were acknowledged: the test did not test", acknowledged)
	}
}

// sound fails the test if the file is damaged, or if the index does not match the messages.
func sound(t *testing.T, j *Journal) {
	t.Helper()
	must(t, j.db.Do(t.Context(), "test", func(c *sqlite.Conn) error {
		return c.Query(func(v sqlite.Row) {
			if v.Text(0) != "ok" {
				t.Errorf("integrity check: %s", v.Text(0))
			}
		}, "PRAGMA integrity_check")
	}))
	want, err := sqlite.Select(t.Context(), j.db, "test", func(v sqlite.Row) int64 { return v.Int(0) }, "SELECT seq FROM messages ORDER BY seq")
	must(t, err)
	var got []int64
	for _, seq := range inIndex(t, j) {
		if number(t, j, fmt.Sprint("SELECT count(*) FROM envelopes WHERE seq=", seq)) == 0 {
			got = append(got, seq)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the index has messages %v, want %v", got, want)
	}
}

package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/relay/relaytest/simagent"
	"teambridge/teams"
	"teambridge/teams/teamstest"
	"teambridge/teams/watch"
	"teambridge/teams/winetest"
)

// patience is how long a test waits for an event that must happen.
const patience = time.Minute

func init() { farewell = patience } // a busy disk takes longer than the second

// claude is the Claude directory of one test.
type claude struct {
	t    testing.TB
	root *teams.Root
}

func newClaude(t testing.TB) *claude {
	t.Helper()
	r, err := teams.Open(t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return &claude{t, r}
}

func (c *claude) path(parts ...string) string {
	return filepath.Join(append([]string{c.root.Path(), "teams"}, parts...)...)
}

// team makes a team directory, without a config.json if the creation time is 0.
func (c *claude) team(name string, createdAt int64) {
	c.t.Helper()
	must(c.t, os.MkdirAll(c.path(name, "inboxes"), 0o700))
	if createdAt != 0 {
		c.config(name, createdAt)
	}
}

func (c *claude) config(name string, createdAt int64) {
	c.t.Helper()
	replace(c.t, c.path(name, "config.json"), fmt.Sprintf(`{"name":%q,"createdAt":%d,"members":[]}`, name, createdAt))
}

// inbox replaces an inbox "team/member".
func (c *claude) inbox(name string, rows ...string) {
	c.t.Helper()
	replace(c.t, c.file(name), "["+strings.Join(rows, ",")+"]")
}

func (c *claude) file(name string) string {
	team, member, _ := strings.Cut(name, "/")
	return c.path(team, "inboxes", member+".json")
}

func replace(t testing.TB, path, text string) {
	t.Helper()
	write(t, path+".tmp.0123abcd", text)
	err := os.Rename(path+".tmp.0123abcd", path)
	for start := time.Now(); err != nil && winetest.Running() && time.Since(start) < time.Minute; {
		<-time.After(time.Millisecond) // a file that is open is replaced only with POSIX semantics
		err = os.Rename(path+".tmp.0123abcd", path)
	}
	must(t, err)
}

// write truncates and writes in place.
func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// locked calls do while it holds the lock of an inbox, so that readers wait and do not mistake a half-written file
// for a whole one.
func (c *claude) locked(name string, do func()) {
	c.t.Helper()
	lock := c.file(name) + ".lock"
	for err := os.Mkdir(lock, 0o700); err != nil; err = os.Mkdir(lock, 0o700) {
		if !errors.Is(err, fs.ErrExist) { // on Windows, a reader can have the last lock open for a moment
			c.t.Fatal(err)
		}
	}
	do()
	must(c.t, os.Remove(lock))
}

// running is a tap that runs until the test ends.
type running struct {
	t       testing.TB
	tap     *Tap
	journal *Journal
	reports chan struct{}
	stop    func()

	mu     sync.Mutex
	warned []string
}

func (c *claude) tap(j *Journal, only ...string) *running {
	c.t.Helper()
	r := &running{t: c.t, journal: j, reports: make(chan struct{}, 1)}
	opts := TapOptions{
		Root: c.root, Journal: j,
		Report: func() {
			select {
			case r.reports <- struct{}{}:
			default:
			}
		},
		Warn: func(err error) {
			if errors.Is(err, watch.ErrLimit) { // other processes have all watches: the tap polls
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.warned = append(r.warned, err.Error())
		},
	}
	if len(only) > 0 {
		opts.Only = func(team string) bool { return slices.Contains(only, team) }
	}
	r.tap = NewTap(opts)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.tap.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Errorf("Run: %v", err)
		}
	})
	c.t.Cleanup(r.stop)
	select {
	case <-r.tap.Ready():
	case <-time.After(patience):
		c.t.Fatal("it does not become ready")
	}
	return r
}

func (r *running) warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.warned)
}

// until waits until a condition of the journal holds.
func (r *running) until(what string, holds func() bool) {
	r.t.Helper()
	over := time.After(patience)
	for !holds() {
		select {
		case <-r.reports:
		case <-over:
			r.t.Fatalf("%s: not within %v; it has %.2000s; warned of %q", what, patience, state(r.t, r.journal), r.warnings())
		}
	}
}

// has waits until the journal has exactly these messages, each as "team@created/inbox text#occurrence", with "-"
// before it if the message is gone.
func (r *running) has(want ...string) {
	r.t.Helper()
	slices.Sort(want)
	r.until(fmt.Sprintf("%q", want), func() bool { return slices.Equal(state(r.t, r.journal), want) })
}

func state(t testing.TB, j *Journal) []string {
	var list []string
	for _, m := range messages(t, j, Query{}) {
		gone := ""
		if !m.GoneAt.IsZero() {
			gone = "-"
		}
		list = append(list, fmt.Sprintf("%s%s/%s %s#%d", gone, m.Instance(), m.Inbox, m.Text, m.Occurrence))
	}
	slices.Sort(list)
	return list
}

// At its start a tap records the rows that are there, and ends those that are gone. Messages of inboxes that it
// cannot read or does not watch stay.
func TestTapBegins(t *testing.T) {
	t.Parallel()
	c, j := newClaude(t), newJournal(t)
	at := time.Now().Add(-time.Hour)
	before := func(root, team, name string, rows ...string) {
		t.Helper()
		_, err := j.Messages.Observe(t.Context(), Snapshot{InboxKey: inbox.Key(root, teams.Instance{Team: team, CreatedAt: 1}, name), Rows: file(t, rows...), At: at})
		must(t, err)
	}
	here := c.root.Path()
	before(here, "blue", "ann", row("old"), row("stays"))
	before(here, "blue", "bob", row("file gone"))
	before(here, "blue", "eve", row("damaged"))
	before(here, "ended", "ann", row("team gone"))
	before(here, "again", "ann", row("same"))
	before(here, "hurt", "ann", row("config damaged"))
	before(here, "other", "ann", row("not watched"))
	before("/elsewhere", "blue", "ann", row("another root"))
	before(here, teams.SessionTeam, "user", row("in no file"))
	before(here, "ci@build", "user", row("of another machine"))
	c.team("blue", 1)
	c.inbox("blue/ann", row("stays"), row("new"))
	write(t, c.file("blue/eve"), "no array")
	c.team("again", 2)
	c.inbox("again/ann", row("same"))
	c.team("hurt", 0)
	write(t, c.path("hurt", "config.json"), "no object")

	r := c.tap(j, "blue", "ended", "again", "hurt", teams.SessionTeam, "ci@build")
	r.stop()
	want := []string{
		"-blue@1/ann old#1", "blue@1/ann stays#1", "blue@1/ann new#1", "-blue@1/bob file gone#1", "blue@1/eve damaged#1",
		"-ended@1/ann team gone#1", "-again@1/ann same#1", "again@2/ann same#1", "hurt@1/ann config damaged#1",
		"other@1/ann not watched#1", "blue@1/ann another root#1", "sessions@1/user in no file#1", "ci@build@1/user of another machine#1",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, state(t, j)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// There is a warning of the inbox only if the tap waited for it.
	if w := r.warnings(); len(w) == 0 || !strings.Contains(w[0], "hurt") || len(w) > 2 {
		t.Errorf("warned of %q", w)
	}
}

// A tap records rows that appear, are read and disappear.
func TestTapFollows(t *testing.T) {
	t.Parallel()
	c, j := newClaude(t), newJournal(t)
	r := c.tap(j) // there is no teams directory yet
	c.team("blue", 7)
	c.inbox("blue/ann", row("a"))
	r.has("blue@7/ann a#1")
	c.inbox("blue/ann", row("a", `"read":true`), row("b"))
	r.has("blue@7/ann a#1", "blue@7/ann b#1")
	if m := messages(t, j, Query{})[0]; m.ReadAt.IsZero() {
		t.Error("that the first was read is not recorded")
	}
	c.inbox("blue/ann")
	r.has("-blue@7/ann a#1", "-blue@7/ann b#1")
	c.inbox("blue/ann", row("a"))
	r.has("-blue@7/ann a#1", "-blue@7/ann b#1", "blue@7/ann a#2")
	must(t, os.Remove(c.file("blue/ann")))
	r.has("-blue@7/ann a#1", "-blue@7/ann b#1", "-blue@7/ann a#2")
	if w := r.warnings(); len(w) > 0 {
		t.Errorf("warned of %q", w)
	}
}

// An empty or incomplete file is being written: none of its rows counts as gone or new.
func TestTapWaitsForWholeFiles(t *testing.T) {
	t.Parallel()
	c, j := newClaude(t), newJournal(t)
	c.team("blue", 7)
	whole := "[" + row("a") + "," + row("b") + "]"
	write(t, c.file("blue/ann"), whole)
	r := c.tap(j)
	for cut := range 3 {
		c.locked("blue/ann", func() {
			write(t, c.file("blue/ann"), whole[:cut*len(whole)/3])
			// Once the tap has recorded this row, it has seen the incomplete file.
			other := fmt.Sprint("other ", cut)
			c.inbox("blue/bob", row(other))
			r.until(other, func() bool { return slices.Contains(state(t, j), "blue@7/bob "+other+"#1") })
			write(t, c.file("blue/ann"), whole)
		})
	}
	write(t, c.file("blue/ann"), strings.Replace(whole, "]", ","+row("c")+"]", 1))
	r.until("c", func() bool { return slices.Contains(state(t, j), "blue@7/ann c#1") })
	for _, m := range messages(t, j, Query{Inbox: "ann"}) {
		if m.Occurrence != 1 || !m.GoneAt.IsZero() {
			t.Errorf("%s #%d, gone at %v", m.Text, m.Occurrence, m.GoneAt)
		}
	}
}

// Each row is recorded once and as read while an older agent and its senders write in place all the time.
func TestTapAgainstWritesInPlace(t *testing.T) {
	t.Parallel()
	c, j := newClaude(t), newJournal(t)
	team, err := simagent.Create(t.Context(), simagent.TeamOptions{Root: c.root.Path(), Marks: true, Name: "blue", Poll: 5 * time.Millisecond,
		Members: []simagent.Member{{Name: "ann"}}})
	must(t, err)
	play(t, team.Run)
	r := c.tap(j)
	const n = 100
	for i := range n {
		_, err := team.Agent(simagent.Lead).Send(t.Context(), simagent.Message{To: "ann", Text: fmt.Sprint("m-", i)})
		must(t, err)
	}
	r.until("all are there", func() bool { return len(state(t, j)) >= n })
	_, err = team.Agent("ann").Wait(t.Context(), n)
	must(t, err)
	r.until("all are read", func() bool {
		return number(t, j, "SELECT count(*) FROM messages WHERE read_at IS NOT NULL") == n
	})
	list := messages(t, j, Query{})
	if len(list) != n {
		t.Errorf("%d messages, want %d", len(list), n)
	}
	for _, m := range list {
		if m.Occurrence != 1 || !m.GoneAt.IsZero() {
			t.Errorf("%s #%d, gone at %v", m.Text, m.Occurrence, m.GoneAt)
		}
	}
}

// play runs f until the test ends.
func play(t testing.TB, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		if err := f(ctx); err != nil {
			t.Error(err) // now, since the test can wait for it
		}
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// Messages that were recorded before config.json existed belong to the team that it names.
func TestTapConfigComesLast(t *testing.T) {
	t.Parallel()
	c, j := newClaude(t), newJournal(t)
	c.team("blue", 0)
	c.inbox("blue/ann", row("a"))
	r := c.tap(j)
	r.has("blue@0/ann a#1")
	c.config("blue", 7)
	r.has("blue@7/ann a#1")
	c.inbox("blue/ann", row("a"), row("b"))
	r.has("blue@7/ann a#1", "blue@7/ann b#1")
	// Another creation time in the same directory is another team.
	c.config("blue", 8)
	r.has("-blue@7/ann a#1", "-blue@7/ann b#1", "blue@8/ann a#1", "blue@8/ann b#1")
}

// A team that is made again under the same name is another team.
func TestTapTeamMadeAgain(t *testing.T) {
	t.Parallel()
	c, j := newClaude(t), newJournal(t)
	c.team("blue", 1)
	c.inbox("blue/ann", row("a"))
	r := c.tap(j)
	r.has("blue@1/ann a#1")
	must(t, os.RemoveAll(c.path("blue")))
	c.team("blue", 2)
	c.inbox("blue/ann", row("a"))
	r.has("-blue@1/ann a#1", "blue@2/ann a#1")
	must(t, os.RemoveAll(c.path("blue")))
	r.has("-blue@1/ann a#1", "-blue@2/ann a#1")
	// Moved there as a whole, by one rename.
	c.team("green", 3)
	c.inbox("green/ann", row("a"))
	must(t, os.Rename(c.path("green"), c.path("blue")))
	r.until("the third", func() bool { return slices.Contains(state(t, j), "blue@3/ann a#1") })
}

// A tap that gets the events of a deleted team late does not mix it up with a new team of the same name.
func TestTapIsLate(t *testing.T) {
	t.Parallel()
	c, j := newClaude(t), newJournal(t)
	c.team("blue", 1)
	c.inbox("blue/ann", row("a"))
	tap := NewTap(TapOptions{Root: c.root, Journal: j, Warn: teamstest.Warn(t)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tap.watcher.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
		tap.forget("blue")
	}()
	must(t, tap.begin(ctx))
	next := func() watch.Event {
		e, err := tap.watcher.Next(ctx)
		must(t, err)
		return e
	}
	var late []watch.Event
	for len(late) == 0 || late[len(late)-1].Kind != watch.Changed {
		late = append(late, next())
	}
	must(t, os.RemoveAll(c.path("blue")))
	c.team("blue", 2)
	c.inbox("blue/ann", row("b"))
	for gone, again := false, false; !again; {
		var e watch.Event
		if len(late) > 0 {
			e, late = late[0], late[1:]
		} else {
			e = next()
		}
		gone = gone || e.Kind == watch.TeamGone
		again = gone && e.Kind == watch.Changed
		tap.event(ctx, &e)
		e.Close()
	}
	if got, want := state(t, j), []string{"-blue@1/ann a#1", "blue@2/ann b#1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A tap that ends right after a team was deleted still records that it is gone.
func TestTapEndsWithATeam(t *testing.T) {
	t.Parallel()
	c, j := newClaude(t), newJournal(t)
	var want []string
	for i := range 10 {
		c.team("blue", int64(i+1))
		c.inbox("blue/ann", row("a"))
		r := c.tap(j)
		r.has(append(slices.Clone(want), fmt.Sprintf("blue@%d/ann a#1", i+1))...)
		must(t, os.RemoveAll(c.path("blue")))
		r.stop()
		want = append(want, fmt.Sprintf("-blue@%d/ann a#1", i+1))
		slices.Sort(want)
		if got := state(t, j); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// A damaged inbox causes one warning, does not stop the other inboxes, and is recorded again once it is repaired.
func TestTapDamagedInbox(t *testing.T) {
	t.Parallel()
	c, j := newClaude(t), newJournal(t)
	c.team("blue", 7)
	c.inbox("blue/ann", row("a"))
	c.inbox("blue/bob")
	r := c.tap(j)
	c.locked("blue/ann", func() {
		for _, text := range []string{`{"no":"array"}`, `[{"cut`, `{"no":"array"}`} {
			write(t, c.file("blue/ann"), text)
		}
	})
	for i := range 5 {
		c.inbox("blue/bob", row(fmt.Sprint(i)))
		r.until("the others go on", func() bool { return slices.Contains(state(t, j), fmt.Sprintf("blue@7/bob %d#1", i)) })
	}
	r.until("a warning", func() bool { return len(r.warnings()) > 0 })
	c.locked("blue/ann", func() { write(t, c.file("blue/ann"), `{"no":"array"}`) })
	c.inbox("blue/bob", row("after"))
	r.until("the others go on", func() bool { return slices.Contains(state(t, j), "blue@7/bob after#1") })
	c.inbox("blue/ann", row("a"), row("mended"))
	r.until("it is mended", func() bool { return slices.Contains(state(t, j), "blue@7/ann mended#1") })
	if !slices.Contains(state(t, j), "blue@7/ann a#1") {
		t.Errorf("the row that was there all the time: %q", state(t, j))
	}
	if w := r.warnings(); len(w) != 1 || !strings.Contains(w[0], c.file("blue/ann")) {
		t.Errorf("warned of %q, want one", w)
	}
}

// Several taps at once, as if in several processes, record each row once, and no row as gone that is there.
func TestTapTwice(t *testing.T) {
	t.Parallel()
	c := newClaude(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	team, err := simagent.Create(t.Context(), simagent.TeamOptions{Root: c.root.Path(), Name: "blue",
		Members: []simagent.Member{{Name: "ann"}, {Name: "bob", Absent: true}}})
	must(t, err)
	play(t, team.Run)
	j := mustOpen(t, path)
	first := c.tap(j)
	c.tap(mustOpen(t, path))
	const n = 100
	sent := map[string]time.Time{}
	for i := range n {
		for _, to := range []string{"ann", "bob"} {
			if to == "bob" && i%10 != 0 {
				continue // the agent keeps all rows
			}
			_, err := team.Agent(simagent.Lead).Send(t.Context(), simagent.Message{To: to, Text: fmt.Sprint("m-", i)})
			must(t, err)
			if to == "ann" {
				sent[fmt.Sprint("m-", i)] = time.Now()
			}
		}
	}
	took, err := team.Agent("ann").Wait(t.Context(), n)
	must(t, err)
	c.tap(mustOpen(t, path))
	first.recorded(took, sent)
	for _, m := range messages(t, j, Query{}) {
		switch {
		case m.Occurrence != 1:
			t.Errorf("%s to %s is recorded %d times", m.Text, m.Inbox, m.Occurrence)
		case m.Inbox == "bob" && !m.GoneAt.IsZero():
			t.Errorf("%s to bob is gone at %v, and is there", m.Text, m.GoneAt)
		}
	}
	if got := len(messages(t, j, Query{Inbox: "bob"})); got != n/10 {
		t.Errorf("%d messages to bob, want %d", got, n/10)
	}
}

// blink is how long a row must stay so that it has to be recorded anywhere: where no events come, a file is not read
// for so long, and on a busy machine a tap can be without a core.
const blink = 2 * time.Second

// recorded waits until all rows that an agent took and that had stayed for at least a blink are in the journal, and
// returns how many of the others are not.
func (r *running) recorded(took []simagent.Taken, sent map[string]time.Time) (missed int) {
	r.t.Helper()
	var late []string
	defer func() {
		if len(late) > 0 {
			r.t.Logf("not recorded: %s", late)
		}
	}()
	r.until("what stayed is recorded", func() bool {
		missed, late = 0, nil
		seen := map[string]bool{}
		for _, m := range messages(r.t, r.journal, Query{}) {
			seen[m.Text] = true
		}
		for _, row := range took {
			if seen[row.Text] {
				continue
			}
			missed++
			if stayed := row.At.Sub(sent[row.Text]); stayed >= blink {
				late = append(late, fmt.Sprint(row.Text, " for ", stayed))
			}
		}
		return len(late) == 0
	})
	return missed
}

// Rows that cannot be recorded cause a warning, and the tap continues.
func TestTapWithoutAJournal(t *testing.T) {
	t.Parallel()
	c, j := newClaude(t), newJournal(t)
	c.team("blue", 7)
	r := c.tap(j)
	must(t, run(j, "PRAGMA query_only=TRUE"))
	c.inbox("blue/ann", row("a"))
	r.until("a warning", func() bool { return len(r.warnings()) > 0 })
	must(t, run(j, "PRAGMA query_only=FALSE"))
	c.inbox("blue/ann", row("a"), row("b"))
	r.has("blue@7/ann a#1", "blue@7/ann b#1")
}

// Adopt moves the messages of a team with an unknown creation time to the team with this time.
func TestAdopt(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	unknown, known := look(t, 1, row("a")), look(t, 1, row("b"))
	unknown.CreatedAt = 0
	both := unknown
	both.Inbox, known.Inbox = "ann", "ann"
	observe(t, j, unknown, both, known)
	must(t, j.Messages.Adopt(t.Context(), root, blue()))
	want := []string{"-blue@0/ann a#1", "blue@1763280000000/ann b#1", "blue@1763280000000/bob a#1"}
	if diff := cmp.Diff(want, state(t, j)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The adopted messages continue under the new name.
	s := look(t, 2, row("a"))
	wantChanges(t, observe(t, j, s).Changes, "")
	var bad *ValueError
	if err := j.Messages.Adopt(t.Context(), root, teams.Instance{Team: "blue"}); !errors.As(err, &bad) {
		t.Errorf("without a creation time: %v", err)
	}
}

// Inbox.Read reads a file once even if its ctx has ended. A tap uses this to look at a file without waiting.
func TestReadLooksOnceWithoutTime(t *testing.T) {
	t.Parallel()
	c := newClaude(t)
	c.team("blue", 7)
	c.inbox("blue/ann", row("a"))
	team, err := c.root.Team("blue")
	must(t, err)
	t.Cleanup(func() { must(t, team.Close()) })
	box, err := inbox.Open(team, "ann", nil)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if rows, err := box.Read(ctx); err != nil || len(rows) != 1 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	write(t, c.file("blue/ann"), "[")
	if _, err := box.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("torn: %v", err)
	}
}

// The tap records the rows of an agent that takes them 20 times as often as a real one.
func TestTapOfANewerAgent(t *testing.T) {
	t.Parallel()
	c, j := newClaude(t), newJournal(t)
	team, err := simagent.Create(t.Context(), simagent.TeamOptions{Root: c.root.Path(), Name: "blue", Poll: 25 * time.Millisecond,
		Members: []simagent.Member{{Name: "ann"}}})
	must(t, err)
	play(t, team.Run)
	r := c.tap(j)
	const n = 200
	sent := flood(t, team, n, 5*time.Millisecond)
	took, err := team.Agent("ann").Wait(t.Context(), n)
	must(t, err)
	missed := r.recorded(took, sent)
	t.Logf("missed %d of %d", missed, n)
	for _, m := range messages(t, j, Query{Inbox: "ann"}) {
		if m.Occurrence != 1 {
			t.Errorf("%s is recorded %d times", m.Text, m.Occurrence)
		}
	}
}

// flood lets the lead send n messages to ann at a rate, or as fast as possible, and returns when each one had been
// sent: until then, the sender may have waited for the lock.
func flood(t testing.TB, team *simagent.Team, n int, every time.Duration) map[string]time.Time {
	t.Helper()
	sent := map[string]time.Time{}
	start := time.Now()
	for i := range n {
		<-time.After(time.Until(start.Add(time.Duration(i) * every)))
		text := fmt.Sprint("m-", i)
		_, err := team.Agent(simagent.Lead).Send(t.Context(), simagent.Message{To: "ann", Text: text})
		must(t, err)
		sent[text] = time.Now()
	}
	return sent
}

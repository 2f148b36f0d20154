package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams/winetest"
)

// patience is how long a test waits for an event that must happen.
const patience = time.Minute

// claude is the Claude directory of one test.
type claude struct {
	t    testing.TB
	root string
}

// String returns the kind in lower case, as in "team gone".
func (k Kind) String() string {
	switch k {
	case Changed:
		return "changed"
	case Removed:
		return "removed"
	case TeamAppeared:
		return "team appeared"
	case TeamGone:
		return "team gone"
	case ConfigChanged:
		return "config changed"
	}
	return "unknown"
}

func newClaude(t testing.TB) *claude { return &claude{t, t.TempDir()} }

func (p *claude) path(name string) string { return filepath.Join(p.root, filepath.FromSlash(name)) }

// inbox is the path of an inbox "team/member".
func (p *claude) inbox(name string) string {
	team, member, _ := strings.Cut(name, "/")
	return p.path("teams/" + team + "/inboxes/" + member + ".json")
}

func (p *claude) must(err error) {
	p.t.Helper()
	must(p.t, err)
}

func (p *claude) mkdir(name string) { p.t.Helper(); p.must(os.MkdirAll(p.path(name), 0o700)) }

// write truncates and writes in place, as old agents do.
func (p *claude) write(path, text string) {
	p.t.Helper()
	p.must(os.WriteFile(path, []byte(text), 0o600))
}

// replace renames a new file over path, as newer agents do.
func (p *claude) replace(path, text string) {
	p.t.Helper()
	p.must(replace(path, text))
}

func replace(path, text string) error {
	tmp := path + ".tmp.0123abcd"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return err
	}
	err := os.Rename(tmp, path)
	for start := time.Now(); err != nil && winetest.Running() && time.Since(start) < patience; {
		<-time.After(time.Millisecond) // a file that is open is replaced only with POSIX semantics
		err = os.Rename(tmp, path)
	}
	return err
}

// locked calls body while it holds the lock of path. It tries more often than any agent does.
func locked(path string, body func() error) error {
	for os.Mkdir(path+".lock", 0o700) != nil {
		<-time.After(time.Millisecond)
	}
	return errors.Join(body(), os.Remove(path+".lock"))
}

// start runs a watcher until the test ends.
func start(t testing.TB, w *Watcher) *Watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w
}

func next(t testing.TB, w *Watcher) Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := w.Next(ctx)
	if err != nil {
		t.Fatalf("no event within %v: %v", patience, err)
	}
	return e
}

// contents returns the contents of the versions of an event, and closes it.
func contents(t testing.TB, e Event) []string {
	t.Helper()
	defer e.Close()
	var all []string
	for _, v := range e.Versions {
		data, err := io.ReadAll(v.File)
		must(t, err)
		all = append(all, string(data))
	}
	return all
}

// view is the state that a reader derives from the events alone.
type view map[string]string // "team", "team/inbox" -> content

func (v view) apply(t testing.TB, e Event) {
	t.Helper()
	name := e.Team + "/" + e.Inbox
	got := contents(t, e)
	switch e.Kind {
	case TeamAppeared:
		v[e.Team] = ""
	case TeamGone:
		maps.DeleteFunc(v, func(k, _ string) bool { return k == e.Team || strings.HasPrefix(k, e.Team+"/") })
	case Removed:
		delete(v, name)
	case Changed:
		if e.Unkept {
			data, err := os.ReadFile(e.Path)
			if err == nil {
				v[name] = string(data)
			}
		} else {
			v[name] = got[len(got)-1]
		}
	}
}

// follow applies events until the view is want.
func (v view) follow(t testing.TB, w *Watcher, want view) {
	t.Helper()
	for !maps.Equal(v, want) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		e, err := w.Next(ctx)
		cancel()
		if err != nil {
			t.Fatalf("the events do not lead to what is there (-want +got):\n%s", cmp.Diff(want, v))
		}
		v.apply(t, e)
	}
}

func TestWhatIsThereAtTheStartIsFound(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	p.mkdir("teams/b")
	p.mkdir("teams/.hidden/inboxes")
	p.write(p.inbox("a/alice"), "[1]")
	p.write(p.inbox("a/bob"), "[2]")
	for _, ignored := range []string{".hidden", "x.json.tmp.1a2b3c4d", "note"} {
		p.write(p.path("teams/a/inboxes/"+ignored), "[3]")
	}
	p.write(p.path("teams/a/inboxes/.tmp.json"), "[3]")
	p.mkdir("teams/a/inboxes/alice.json.lock")
	p.write(p.path("teams/file"), "no team")
	w := start(t, New(Options{Root: p.root}))
	view{}.follow(t, w, view{"a": "", "a/alice": "[1]", "a/bob": "[2]", "b": ""})
}

func TestRootAndTeamsMayComeLater(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.root = filepath.Join(p.root, "claude")
	w := start(t, New(Options{Root: p.root, sweep: time.Hour, poll: time.Millisecond}))
	v := view{}
	p.mkdir("teams/a/inboxes")
	p.write(p.inbox("a/alice"), "[1]")
	v.follow(t, w, view{"a": "", "a/alice": "[1]"})
	p.must(os.RemoveAll(p.path("teams")))
	v.follow(t, w, view{})
	p.mkdir("teams/a/inboxes")
	p.write(p.inbox("a/alice"), "[2]")
	v.follow(t, w, view{"a": "", "a/alice": "[2]"})
	p.must(os.RemoveAll(p.root))
	v.follow(t, w, view{})
	p.mkdir("teams/b/inboxes")
	p.write(p.inbox("b/bob"), "[3]")
	v.follow(t, w, view{"b": "", "b/bob": "[3]"})
}

// With sweeps off, events alone report teams that appear, are deleted and appear again.
func TestTeamsThatComeAndGoAndComeAgain(t *testing.T) {
	t.Parallel()
	const teams, inboxes = 40, 5
	p := newClaude(t)
	p.mkdir("teams")
	w := start(t, New(Options{Root: p.root, sweep: time.Hour}))
	v := view{}
	for round := range 2 {
		want := view{}
		for i := range teams {
			team := fmt.Sprintf("team%d", i)
			p.mkdir("teams/" + team + "/inboxes")
			want[team] = ""
			for j := range inboxes {
				name := fmt.Sprintf("%s/member%d", team, j)
				p.write(p.inbox(name), "[]")
				want[name] = fmt.Sprintf("[%d,%d,%d]", round, i, j)
				p.must(locked(p.inbox(name), func() error { return replace(p.inbox(name), want[name]) }))
			}
		}
		v.follow(t, w, want)
		// The first half is deleted at once, the second as the next round begins.
		for i := range teams / 2 {
			p.must(os.RemoveAll(p.path(fmt.Sprintf("teams/team%d", i))))
			maps.DeleteFunc(want, func(k, _ string) bool {
				team, _, _ := strings.Cut(k, "/")
				return team == fmt.Sprintf("team%d", i)
			})
		}
		v.follow(t, w, want)
		for i := teams / 2; i < teams; i++ {
			p.must(os.RemoveAll(p.path(fmt.Sprintf("teams/team%d", i))))
		}
	}
	v.follow(t, w, view{})
}

// If another directory takes the place of teams, its teams are not those of the same names that were there before.
func TestTeamsAreReplaced(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	for dir, text := range map[string]string{"teams": "[1]", "others": "[2]"} {
		p.mkdir(dir + "/a/inboxes")
		p.write(p.path(dir+"/a/inboxes/alice.json"), text)
	}
	w := New(Options{Root: p.root, sweep: time.Hour})
	var g gate
	w.open = g.open
	start(t, w)
	v := view{}
	v.follow(t, w, view{"a": "", "a/alice": "[1]"})
	g.Lock()
	p.must(os.Rename(p.path("teams"), p.path("before")))
	p.must(os.Rename(p.path("others"), p.path("teams")))
	g.Unlock()
	v.follow(t, w, view{"a": "", "a/alice": "[2]"})
	p.write(p.inbox("a/alice"), "[3]")
	v.follow(t, w, view{"a": "", "a/alice": "[3]"})
}

func TestEveryInboxIsFoundAfterItsLastChange(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	w := start(t, New(Options{Root: p.root, sweep: time.Hour}))
	want := view{"a": ""}
	var writers sync.WaitGroup
	for i := range 8 {
		name := fmt.Sprintf("a/member%d", i)
		want[name] = fmt.Sprintf("[%d]", 200)
		writers.Go(func() {
			for n := range 201 {
				text := fmt.Sprintf("[%d]", n)
				var err error
				switch {
				case i%2 == 0: // in place
					err = os.WriteFile(p.inbox(name), []byte(text), 0o600)
				case n%3 == 0: // with a gap
					os.Remove(p.inbox(name))
					fallthrough
				default:
					err = locked(p.inbox(name), func() error { return replace(p.inbox(name), text) })
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	v := view{}
	v.follow(t, w, want)
	writers.Wait()
	v.follow(t, w, want)
}

func TestOnlyTheTeamsAskedForAreWatched(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("teams/other/inboxes")
	w := start(t, New(Options{Root: p.root, Only: func(team string) bool { return team == "mine" }}))
	p.mkdir("teams/another/inboxes")
	p.write(p.inbox("another/x"), "[]")
	p.mkdir("teams/mine/inboxes")
	p.write(p.inbox("mine/x"), "[]")
	v := view{}
	v.follow(t, w, view{"mine": "", "mine/x": "[]"})
}

// A file that never stops changing still causes events, at the maximum delay.
func TestAFileWrittenWithoutAPauseGetsThrough(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	// Only the maximum can make this event come.
	w := start(t, New(Options{Root: p.root, settle: time.Hour, maxSettle: 20 * time.Millisecond, sweep: time.Hour}))
	next(t, w) // the team
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
				os.WriteFile(p.inbox("a/alice"), fmt.Appendf(nil, "[%d]", n), 0o600)
			}
		}
	})
	for range 5 {
		e := next(t, w)
		e.Close()
		if waited := time.Since(e.At); waited < 20*time.Millisecond || waited > patience {
			t.Errorf("handed out %v after the first sign, want 20ms and little more", waited)
		}
	}
	close(done)
	writer.Wait()
}

func TestLinksStayBelowTheRoot(t *testing.T) {
	t.Parallel()
	winetest.SkipLinks(t)
	p, outside := newClaude(t), newClaude(t)
	outside.mkdir("out/inboxes")
	outside.write(outside.path("out/inboxes/secret.json"), "[secret]")
	p.mkdir("kept/inboxes")
	p.write(p.path("kept/inboxes/alice.json"), "[1]")
	p.mkdir("teams/real")
	p.must(os.Symlink(p.path("kept"), p.path("teams/inner")))
	p.must(os.Symlink(outside.path("out"), p.path("teams/outer")))
	p.must(os.Symlink(outside.path("out/inboxes"), p.path("teams/real/inboxes")))
	p.must(os.Symlink(outside.path("out/inboxes/secret.json"), p.path("kept/inboxes/link.json")))
	w := start(t, New(Options{Root: p.root}))
	seen := map[string]bool{}
	for len(seen) < 4 {
		e := next(t, w)
		seen[e.Kind.String()+" "+e.Team+" "+e.Inbox] = true
		for _, c := range contents(t, e) {
			if strings.Contains(c, "secret") {
				t.Errorf("%v opened %s", e, c)
			}
		}
	}
	want := map[string]bool{"team appeared inner ": true, "team appeared real ": true, "changed inner alice": true, "changed inner link": true}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestWhatIsNoFileIsReportedAndNotOpened(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("teams/a/inboxes/dir.json")
	if err := makePipe(p.inbox("a/pipe")); err != nil {
		t.Skip(err)
	}
	w := start(t, New(Options{Root: p.root}))
	next(t, w)
	for range 2 {
		e := next(t, w)
		if e.Kind != Changed || !e.Unkept || len(e.Versions) != 0 {
			t.Errorf("got %+v, want a change without a version", e)
		}
	}
}

// It is not parallel, since it counts the descriptors and goroutines of the process.
func TestRunLeavesNothingBehind(t *testing.T) {
	descriptors := func() int {
		n, err := openFiles()
		if err != nil {
			t.Skip(err)
		}
		return n
	}
	p := newClaude(t)
	for i := range 10 {
		p.mkdir(fmt.Sprintf("teams/t%d/inboxes", i))
		p.write(p.inbox(fmt.Sprintf("t%d/x", i)), "[]")
	}
	once := func() {
		ctx, cancel := context.WithCancel(context.Background())
		w := New(Options{Root: p.root})
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		e := next(t, w)
		for e.Kind != Changed {
			e = next(t, w)
		}
		p.replace(p.inbox("t9/x"), "[1]")
		e.Close()
		cancel()
		must(t, <-ended)
		if _, err := w.Next(context.Background()); !errors.Is(err, ErrStopped) {
			t.Errorf("Next after Run: %v, want ErrStopped", err)
		}
		if err := w.Run(context.Background()); err == nil {
			t.Error("a second Run gave no error")
		}
	}
	once() // the runtime opens its own poller
	files, routines := descriptors(), runtime.NumGoroutine()
	for range 5 {
		once()
	}
	deadline := time.Now().Add(patience)
	for descriptors() > files || runtime.NumGoroutine() > routines {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors and %d goroutines, before %d and %d", descriptors(), runtime.NumGoroutine(), files, routines)
		}
		runtime.Gosched()
	}
}

func TestRunWithoutARoot(t *testing.T) {
	t.Parallel()
	if err := New(Options{}).Run(context.Background()); err == nil {
		t.Error("no error")
	}
}

// settled waits until the watcher has handled everything up to now, without taking an event from it: the first of its
// two teams may be found by a scan that is still running, the second only after it.
func settled(t testing.TB, p *claude, w *Watcher) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for _, barrier := range []string{"barrier1", "barrier2"} {
		p.mkdir("teams/" + barrier)
		for found := false; !found; runtime.Gosched() {
			w.queue.mu.Lock()
			for k := range w.queue.byKey {
				found = found || k.team.name == barrier
			}
			w.queue.mu.Unlock()
			if time.Now().After(deadline) {
				t.Fatal("the watcher does not come to an end")
			}
		}
	}
}

// Without a reader, the queue has at most one event for each inbox, with few versions.
func TestAReaderThatNeverComesCostsLittle(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	w := start(t, New(Options{Root: p.root}))
	const inboxes, others = 20, 50
	for n := range 100 {
		for i := range inboxes {
			p.replace(p.inbox(fmt.Sprintf("a/member%d", i)), strings.Repeat("x", 1000-n))
		}
	}
	for n := range others {
		for range 3 {
			p.mkdir(fmt.Sprintf("teams/t%d/inboxes", n))
			p.must(os.RemoveAll(p.path(fmt.Sprintf("teams/t%d", n))))
		}
	}
	settled(t, p, w)
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	held := 0
	for _, e := range w.queue.waiting {
		held += len(e.event.Versions)
		if len(e.event.Versions) > MaxVersions {
			t.Errorf("%s has %d versions", e.inbox, len(e.event.Versions))
		}
	}
	if held != w.queue.files || held > MaxFiles {
		t.Errorf("%d files are open, counted %d, at most %d", held, w.queue.files, MaxFiles)
	}
	// One event for each inbox, and one for each team that exists.
	if n := len(w.queue.waiting); n != inboxes+3 || n != len(w.queue.byKey) {
		t.Errorf("%d events wait (%d keys), want %d", n, len(w.queue.byKey), inboxes+3)
	}
}

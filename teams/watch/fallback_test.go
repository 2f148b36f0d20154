//go:build !windows

package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

func TestBeyondTheLimitItPolls(t *testing.T) {
	t.Parallel()
	for name, errno := range map[string]syscall.Errno{"watches": syscall.ENOSPC, "descriptors": syscall.EMFILE} {
		for part, refused := range map[string]string{"all": "", "teams": "teams", "one team": "b", "inboxes": "inboxes"} {
			t.Run(name+" of "+part, func(t *testing.T) {
				t.Parallel()
				p := newClaude(t)
				p.mkdir("teams/a/inboxes")
				p.write(p.inbox("a/alice"), "[1]")
				var warned warnings
				w := New(Options{Root: p.root, sweep: time.Hour, poll: time.Millisecond, Warn: warned.add})
				w.open = (&fakeSource{add: func(dir string) error {
					if strings.HasSuffix(dir, refused) {
						return errno
					}
					return nil
				}}).open
				start(t, w)
				v := view{}
				v.follow(t, w, view{"a": "", "a/alice": "[1]"})
				p.replace(p.inbox("a/alice"), "[2]")
				p.mkdir("teams/b/inboxes")
				p.write(p.inbox("b/bob"), "[3]")
				v.follow(t, w, view{"a": "", "a/alice": "[2]", "b": "", "b/bob": "[3]"})
				p.write(p.inbox("b/bob"), "[4,4]")
				p.write(p.inbox("b/carol"), "[5]")
				v.follow(t, w, view{"a": "", "a/alice": "[2]", "b": "", "b/bob": "[4,4]", "b/carol": "[5]"})
				p.must(os.Remove(p.inbox("b/carol")))
				p.must(os.RemoveAll(p.path("teams/a")))
				v.follow(t, w, view{"b": "", "b/bob": "[4,4]"})
				warned.only(t, ErrLimit)
			})
		}
	}
}

func TestWithoutASourceItPollsAndTriesAgain(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	p.write(p.inbox("a/alice"), "[1]")
	var warned warnings
	w := New(Options{Root: p.root, sweep: 20 * time.Millisecond, poll: time.Millisecond, Warn: warned.add})
	opened := make(chan struct{})
	tries := 0
	w.open = func() (source, error) {
		if tries++; tries < 5 {
			return nil, os.NewSyscallError("inotify_init1", syscall.EMFILE)
		}
		close(opened)
		return openKernel()
	}
	start(t, w)
	v := view{}
	v.follow(t, w, view{"a": "", "a/alice": "[1]"})
	p.replace(p.inbox("a/alice"), "[2]")
	v.follow(t, w, view{"a": "", "a/alice": "[2]"})
	select {
	case <-opened:
	case <-time.After(patience):
		t.Fatal("no second try")
	}
	warned.only(t, ErrLimit)
}

func TestWatchesAreSetOnceTheLimitAllows(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	var mu sync.Mutex
	full, added := true, make(chan struct{})
	w := New(Options{Root: p.root, sweep: time.Hour, poll: time.Millisecond})
	w.open = (&fakeSource{add: func(dir string) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !strings.HasSuffix(dir, "inboxes"):
		case full:
			full = false
			return syscall.ENOSPC
		default:
			close(added)
		}
		return nil
	}}).open
	start(t, w)
	select {
	case <-added:
	case <-time.After(patience):
		t.Fatal("no second try")
	}
}

// Without events, as on a network file system, sweeps find the changes, and then the watcher polls. The test controls
// the clock.
func TestWithoutEventsSweepsFindAndThenItPolls(t *testing.T) {
	t.Parallel()
	// A sweep lists a directory if its time has changed. The kernel's clock may tick too seldom for that.
	tick := func(p *claude, dir string, n int) {
		at := time.Unix(int64(n), 0)
		p.must(os.Chtimes(p.path(dir), at, at))
	}
	for name, change := range map[string]func(p *claude, n int) (want Event){
		"inboxes": func(p *claude, n int) Event {
			p.replace(p.inbox("a/alice"), fmt.Sprintf("[%d]", n))
			tick(p, "teams/a/inboxes", n)
			return Event{Kind: Changed, Team: "a", Inbox: "alice"}
		},
		"config.json": func(p *claude, n int) Event {
			p.write(p.path("teams/a/config.json"), strings.Repeat("x", n))
			tick(p, "teams/a", n)
			return Event{Kind: ConfigChanged, Team: "a"}
		},
		"teams that come": func(p *claude, n int) Event {
			team := fmt.Sprintf("t%d", n)
			p.mkdir("teams/" + team)
			tick(p, "teams", n)
			return Event{Kind: TeamAppeared, Team: team}
		},
		"teams that go": func(p *claude, n int) Event {
			team := fmt.Sprintf("old%d", n)
			p.must(os.Remove(p.path("teams/" + team)))
			tick(p, "teams", n)
			return Event{Kind: TeamGone, Team: team}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const changes = 8
			p := newClaude(t)
			p.mkdir("teams/a/inboxes")
			want := view{"a": "", "a/alice": "[0]"}
			p.write(p.inbox("a/alice"), "[0]")
			for n := range changes {
				team := fmt.Sprintf("old%d", n+1)
				p.mkdir("teams/" + team)
				want[team] = ""
			}
			synctest.Test(t, func(t *testing.T) {
				var warned warnings
				w := New(Options{Root: p.root, Warn: warned.add})
				w.open = newSilent().open
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- w.Run(ctx) }()
				view{}.follow(t, w, want)
				for n := 1; n <= changes; n++ {
					time.Sleep(10 * time.Millisecond)
					at, want := time.Now(), change(p, n)
					e := next(t, w)
					e.Close()
					if e.Kind != want.Kind || e.Team != want.Team || e.Inbox != want.Inbox {
						t.Fatalf("change %d gave %+v, want %+v", n, e, want)
					}
					most := 5 * time.Second // the first sweep that finds a change
					switch {
					case n > 4:
						most = 250 * time.Millisecond
					case n > 1:
						most = 2 * time.Second
					}
					most += 20 * time.Millisecond
					if took := time.Since(at); took > most {
						t.Errorf("change %d was found after %v, want at most %v", n, took, most)
					}
				}
				warned.only(t, ErrNoEvents)
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Without events, the next sweep finds a changed directory, and a file that was written in place is found within 30
// s: the sweeps between look at no files. The test controls the clock.
func TestMostSweepsLookAtNoFiles(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	p.write(p.inbox("a/alice"), "[]")
	p.write(p.path("teams/a/config.json"), "{}")
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Root: p.root})
		w.open = newSilent().open
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		begun := time.Now()
		go func() { ended <- w.Run(ctx) }()
		view{}.follow(t, w, view{"a": "", "a/alice": "[]"})
		p.write(p.inbox("a/alice"), "[1]")
		p.write(p.path("teams/a/config.json"), "{ }")
		for _, kind := range []Kind{ConfigChanged, Changed} {
			e := next(t, w)
			e.Close()
			if took := time.Since(begun).Round(time.Second); e.Kind != kind || took != 30*time.Second {
				t.Errorf("%+v after %v, want kind %v after 30 s", e, took, kind)
			}
		}
		begun = time.Now()
		for n, at := range []time.Duration{2 * time.Second, 9 * time.Second} {
			p.write(p.inbox("a/alice"), strings.Repeat(" ", n)+"[1,2]")
			if n == 1 {
				p.must(os.Chtimes(p.path("teams/a/inboxes"), time.Unix(1, 0), time.Unix(1, 0))) // a lock directory has this effect
			}
			e := next(t, w)
			e.Close()
			if took := time.Since(begun).Round(time.Second); e.Kind != Changed || took != at {
				t.Errorf("%+v after %v, want it after %v", e, took, at)
			}
			time.Sleep(3 * time.Second) // after one that found a change, one more sweep looks at all files, and the next ones at none
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Events prove that a directory has them, even if a sweep finds the changes first three times. Run is not used, since
// the test decides about the order.
func TestASweepAheadOfItsEventIsNoReasonToPoll(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	alice := p.inbox("a/alice")
	var warned warnings
	w := New(Options{Root: p.root, Warn: warned.add})
	w.root, w.top = &dir{path: p.root}, &dir{path: p.path("teams")}
	w.connect()
	defer func() {
		w.disconnect()
		w.pumps.Wait()
		w.queue.stop()
	}()
	w.rescan()
	a := w.teams["a"]
	for n := range 10 {
		p.replace(alice, fmt.Sprintf("[%d]", n))
		w.findEventless()
		w.scan(a, true)
		if !a.inboxes.suspect {
			t.Fatal("the sweep found nothing")
		}
		for done := false; !done; {
			select {
			case e := <-w.source.events():
				w.handle(e)
				done = e.Name == alice
			case <-time.After(patience):
				t.Fatal("no event")
			}
		}
	}
	if len(warned.all) > 0 || a.inboxes.noEvents {
		t.Errorf("warned of %v", warned.all)
	}
}

func TestLostEventsAreMadeUpFor(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]error{
		"the queue of the kernel overflowed": fsnotify.ErrEventOverflow,
		"reading events failed":              errors.New("read: input/output error"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newClaude(t)
			p.mkdir("teams/a/inboxes")
			p.mkdir("teams/b/inboxes")
			p.write(p.inbox("a/alice"), "[1]")
			errs := make(chan error)
			added := make(chan string, 100)
			w := New(Options{Root: p.root, sweep: time.Hour})
			w.open = (&fakeSource{
				add:  func(dir string) error { added <- dir; return nil },
				deaf: func(string) bool { return true },
				errs: errs,
			}).open
			start(t, w)
			v := view{}
			v.follow(t, w, view{"a": "", "b": "", "a/alice": "[1]"})
			p.replace(p.inbox("a/alice"), "[2]")
			p.write(p.inbox("a/bob"), "[3]")
			p.must(os.RemoveAll(p.path("teams/b")))
			p.mkdir("teams/c/inboxes")
			p.write(p.inbox("c/carol"), "[4]")
			errs <- lost
			v.follow(t, w, view{"a": "", "a/alice": "[2]", "a/bob": "[3]", "c": "", "c/carol": "[4]"})
			// The end of a watch may have been among the lost events.
			times := map[string]int{}
			for len(added) > 0 {
				times[<-added]++
			}
			for _, dir := range []string{"", "teams", "teams/a", "teams/a/inboxes"} {
				if times[p.path(dir)] != 2 {
					t.Errorf("%q was watched %d times, want once more after the loss", dir, times[p.path(dir)])
				}
			}
		})
	}
}

func TestTheQueueOfTheKernelOverflows(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Skip(err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || limit > 20_000 {
		t.Skipf("the queue takes %d events: %v", limit, err)
	}
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	p.mkdir("teams/c/inboxes")
	// The watcher is blocked in the question whether it wants a team.
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w := start(t, New(Options{Root: p.root, sweep: time.Hour, Only: func(team string) bool {
		if team == "hold" {
			once.Do(func() { close(asked); <-answer })
			return false
		}
		return true
	}}))
	v := view{}
	v.follow(t, w, view{"a": "", "c": ""})
	p.mkdir("teams/hold")
	<-asked
	// Twice as many events as the queue takes, within a moment: changes of the mode of two files in turn, since the
	// kernel joins equal events.
	notes := []string{p.path("teams/a/inboxes/1.txt"), p.path("teams/a/inboxes/2.txt")}
	for _, note := range notes {
		p.write(note, "")
	}
	for n := range 2 * limit {
		p.must(os.Chmod(notes[n%2], 0o600))
	}
	p.replace(p.inbox("a/alice"), "[1]")
	p.mkdir("teams/b/inboxes")
	p.write(p.inbox("b/bob"), "[2]")
	p.must(os.Rename(p.path("teams/c"), p.path("teams/d")))
	close(answer)
	v.follow(t, w, view{"a": "", "a/alice": "[1]", "b": "", "b/bob": "[2]", "d": ""})
	p.write(p.inbox("d/dora"), "[3]") // the directory is still watched, under its new name
	v.follow(t, w, view{"a": "", "a/alice": "[1]", "b": "", "b/bob": "[2]", "d": "", "d/dora": "[3]"})
}

// Teams that swap their names while events are lost are both watched under their new names.
func TestTeamsSwapNamesUnheard(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	p.mkdir("teams/b/inboxes")
	p.write(p.inbox("a/alice"), "[1]")
	p.write(p.inbox("b/bob"), "[2]")
	errs, missed := make(chan error), make(chan bool)
	var lost atomic.Bool
	w := New(Options{Root: p.root, sweep: time.Hour})
	w.open = (&fakeSource{
		deaf: func(name string) bool {
			if was := lost.Load(); !was || name != p.path("last") {
				return was
			}
			missed <- true
			return true
		},
		errs: errs,
	}).open
	start(t, w)
	v := view{}
	v.follow(t, w, view{"a": "", "b": "", "a/alice": "[1]", "b/bob": "[2]"})
	lost.Store(true)
	for _, names := range [][2]string{{"a", "c"}, {"b", "a"}, {"c", "b"}} {
		p.must(os.Rename(p.path("teams/"+names[0]), p.path("teams/"+names[1])))
	}
	p.mkdir("last")
	<-missed
	lost.Store(false)
	errs <- fsnotify.ErrEventOverflow
	v.follow(t, w, view{"a": "", "b": "", "a/bob": "[2]", "b/alice": "[1]"})
	p.replace(p.inbox("a/bob"), "[3]")
	p.replace(p.inbox("b/alice"), "[4]")
	v.follow(t, w, view{"a": "", "b": "", "a/bob": "[3]", "b/alice": "[4]"})
}

// A directory that was made while events were lost is watched, too.
func TestDirsAfterLostEvents(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	errs, missed := make(chan error), make(chan string)
	var lost atomic.Bool
	lost.Store(true)
	src, err := (&fakeSource{
		deaf: func(name string) bool {
			was := lost.Load()
			if was {
				missed <- name
			}
			return was
		},
		errs: errs,
	}).open()
	must(t, err)
	must(t, src.Add(p.root))
	changes, ended := make(chan string), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	later := p.path("later")
	go func() {
		ended <- (&Dirs{src, []string{p.root, later}}).Run(ctx, func(dir string) { changes <- dir })
	}()
	p.mkdir("later")
	for <-missed != later {
	}
	lost.Store(false)
	errs <- fsnotify.ErrEventOverflow
	for range 2 {
		<-changes
	}
	p.write(p.path("later/new"), "")
	select {
	case got := <-changes:
		if got != later {
			t.Errorf("%s has changed, not %s", got, later)
		}
	case <-time.After(patience):
		t.Errorf("no change within %v", patience)
	}
	stop()
	for done := false; !done; {
		select {
		case <-changes:
		case err := <-ended:
			done = true
			if err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAnUnreadableDirectoryIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	p.must(os.Chmod(p.path("teams/a/inboxes"), 0))
	t.Cleanup(func() { os.Chmod(p.path("teams/a/inboxes"), 0o700) })
	p.mkdir("teams/b/inboxes")
	var warned warnings
	w := New(Options{Root: p.root, sweep: time.Millisecond, poll: time.Millisecond, Warn: warned.add})
	came := make(chan string, 1000) // the events, before they are handled
	w.open = (&fakeSource{deaf: func(name string) bool { came <- name; return false }}).open
	start(t, w)
	v, want := view{}, view{"a": "", "b": ""}
	for n := range 20 {
		inbox := fmt.Sprintf("b/bob%d", n)
		want[inbox] = "[]"
		p.replace(p.inbox(inbox), "[]")
		v.follow(t, w, want)
		// Three sweeps in a row that find changes before their events would cause another warning. There is no event
		// before the watch.
		for n > 0 && <-came != p.inbox(inbox) {
		}
	}
	warned.only(t, os.ErrPermission)
}

// With EventsAlone, no file is read while no event comes.
func TestEventsAlone(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		p := newClaude(t)
		p.mkdir("tasks/a")
		p.write(p.path("tasks/a/1.json"), "{}")
		synctest.Test(t, func(t *testing.T) {
			w := New(Options{Root: p.root, Tasks: true, EventsAlone: alone})
			w.open = newSilent().open
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- w.Run(ctx) }()
			for e := next(t, w); e.Kind != Changed; e = next(t, w) {
				e.Close()
			}
			p.write(p.path("tasks/a/1.json"), "{ }")
			wait, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			e, err := w.Next(wait)
			e.Close()
			if (err != nil) != alone {
				t.Errorf("alone: %t, after %s there was %+v, %v", alone, time.Hour, e, err)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

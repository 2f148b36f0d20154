package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams/errtest"
)

var must = errtest.Must

// A queue alone needs no kernel, so the test can control its clock.
func testQueue() *queue { return newQueue(2*time.Millisecond, 20*time.Millisecond) }

func testTeam(name string) *team { return &team{name: name, dir: &dir{path: name}} }

func inboxKey(t *team, inbox string) key { return key{team: t, kind: Changed, inbox: inbox} }

// kept returns an observation of its own version, with an open file.
func kept(t *testing.T, n, size int) observation {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, fmt.Appendf(nil, "%d", n), 0o600))
	f, err := os.Open(path)
	must(t, err)
	return observation{file: f, at: time.Now(), stamp: stamp{id: identity{1, uint64(n)}, modTime: int64(n), size: int64(size)}}
}

// unkept returns an observation of a version that could not be opened.
func unkept(n int) observation {
	return observation{at: time.Now(), stamp: stamp{id: identity{1, uint64(n)}}}
}

// Changes that follow each other closely are one event, which is delayed only up to a maximum.
func TestEventsAreJoinedUntilNothingFollows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		signs []time.Duration // when the file is seen to have changed
		freed time.Duration   // when its writer releases the lock; 0: never
		want  []time.Duration // when an event is handed out
	}{
		"one":                        {signs: []time.Duration{0}, want: []time.Duration{2}},
		"two that are close":         {signs: []time.Duration{0, 1}, want: []time.Duration{3}},
		"two that are apart":         {signs: []time.Duration{0, 3}, want: []time.Duration{2, 5}},
		"without a pause":            {signs: steps(0, 30), want: []time.Duration{20, 32}},
		"done":                       {signs: []time.Duration{0}, freed: 1, want: []time.Duration{1}},
		"done before it was changed": {signs: []time.Duration{4}, freed: 1, want: []time.Duration{6}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, tm, begin := testQueue(), testTeam("a"), time.Now()
				k := inboxKey(tm, "alice")
				for i, at := range test.signs {
					time.AfterFunc(at*time.Millisecond, func() { q.file(k, "p", unkept(i)) })
				}
				if test.freed > 0 {
					time.AfterFunc(test.freed*time.Millisecond, func() { q.hurry(k, time.Now()) })
				}
				for _, want := range test.want {
					if _, err := q.next(t.Context()); err != nil {
						t.Fatal(err)
					}
					if got := time.Since(begin); got != want*time.Millisecond {
						t.Errorf("an event came after %v, want %v", got, want*time.Millisecond)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if e, err := q.next(ctx); err == nil {
					t.Errorf("one more event: %+v", e)
				}
			})
		})
	}
}

func steps(from, to time.Duration) []time.Duration {
	var all []time.Duration
	for ; from <= to; from++ {
		all = append(all, from)
	}
	return all
}

func TestEventsOfOneTeamKeepTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		first, second := testTeam("a"), testTeam("a")
		q.team(first, time.Now())
		q.file(key{team: first, kind: ConfigChanged}, "p", unkept(1))
		q.file(inboxKey(first, "alice"), "p", kept(t, 1, 10))
		q.file(inboxKey(first, "bob"), "p", unkept(1))
		q.gone(first, time.Now())
		q.team(second, time.Now())
		q.file(inboxKey(second, "alice"), "p", kept(t, 2, 10))
		var got []string
		for range 5 {
			e, err := q.next(t.Context())
			must(t, err)
			got = append(got, fmt.Sprint(e.Kind, e.Inbox, contents(t, e)))
		}
		want := []string{"team appeared[]", "removedalice[1]", "team gone[]", "team appeared[]", "changedalice[2]"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestATeamNobodyWasToldOfLeavesNoTrace(t *testing.T) {
	t.Parallel()
	q, tm := testQueue(), testTeam("a")
	q.team(tm, time.Now())
	q.file(inboxKey(tm, "alice"), "p", unkept(1))
	q.gone(tm, time.Now())
	if len(q.waiting) != 0 || len(q.byKey) != 0 {
		t.Errorf("%d events wait", len(q.waiting))
	}
}

// Beyond the limit, a version is given up whose rows are in the next one, or else the oldest.
func TestVersionsThatAreGivenUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sizes   []int // of the versions, in their order
		dropped []int // the versions that are not there in the end
		missed  int
	}{
		"room for all": {sizes: repeat(MaxVersions, 10)},
		"one too many, all grow: the first, whose rows are in the second": {
			sizes: steep(0, MaxVersions+1, 1), dropped: []int{0}},
		"a take is kept, an append before it is not": {
			sizes: append([]int{50, 2}, steep(3, MaxVersions-1, 1)...), dropped: []int{1}},
		"all shrink: the oldest": {
			sizes: steep(100, MaxVersions+2, -1), dropped: []int{0, 1}, missed: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, tm := testQueue(), testTeam("a")
			var want []string
			for i, size := range test.sizes {
				q.file(inboxKey(tm, "alice"), "p", kept(t, i, size))
				want = append(want, fmt.Sprint(i))
			}
			for i := len(test.dropped) - 1; i >= 0; i-- {
				d := test.dropped[i]
				want = append(want[:d], want[d+1:]...)
			}
			e, err := q.next(t.Context())
			must(t, err)
			if e.Missed != test.missed || e.Unkept {
				t.Errorf("missed %d, unkept %v, want %d, false", e.Missed, e.Unkept, test.missed)
			}
			if diff := cmp.Diff(want, contents(t, e)); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if q.files != 0 {
				t.Errorf("%d files counted as open after all are handed out", q.files)
			}
		})
	}
}

func repeat(n, size int) []int { return steep(size, n, 0) }

func steep(from, n, step int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = from + i*step
	}
	return all
}

func TestBeyondTheBoundOfAllFilesTheNewestIsReadByItsPath(t *testing.T) {
	t.Parallel()
	q, tm := testQueue(), testTeam("a")
	for i := range MaxFiles + 1 {
		q.file(inboxKey(tm, fmt.Sprint(i)), "p", kept(t, i, 10))
	}
	last := inboxKey(tm, fmt.Sprint(MaxFiles))
	if e := q.byKey[last]; !e.event.Unkept || e.event.Missed != 0 || q.files != MaxFiles {
		t.Errorf("unkept %v, missed %d, %d files open", e.event.Unkept, e.event.Missed, q.files)
	}
	// Now it is replaced before a reader has read it.
	q.file(last, "p", kept(t, MaxFiles+1, 10))
	if e := q.byKey[last]; !e.event.Unkept || e.event.Missed != 1 || q.files != MaxFiles {
		t.Errorf("unkept %v, missed %d, %d files open", e.event.Unkept, e.event.Missed, q.files)
	}
	q.stop()
	if q.files != 0 || len(q.waiting) != 0 {
		t.Errorf("%d files open, %d events waiting after the stop", q.files, len(q.waiting))
	}
}

func TestOneFileWrittenInPlaceIsOneVersion(t *testing.T) {
	t.Parallel()
	q, k := testQueue(), inboxKey(testTeam("a"), "alice")
	a, b := kept(t, 1, 10), kept(t, 1, 10)
	b.stamp.modTime, b.stamp.size = 99, 20
	q.file(k, "p", a)
	q.file(k, "p", b)
	e, err := q.next(t.Context())
	must(t, err)
	defer e.Close()
	if len(e.Versions) != 1 || e.Versions[0].Size != 20 || e.Versions[0].ModTime.UnixNano() != 99 {
		t.Errorf("versions %+v, want one with the newest size and time", e.Versions)
	}
	if err := b.file.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the second descriptor of one file is still open")
	}
}

func TestNextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := q.next(ctx); !errors.Is(err, cause) {
			t.Errorf("ended ctx: %v, want its cause", err)
		}
		q.team(testTeam("a"), time.Now())
		if _, err := q.next(ctx); err != nil {
			t.Errorf("an event waits and ctx has ended: %v, want the event", err)
		}
		ended := make(chan error)
		go func() { _, err := q.next(t.Context()); ended <- err }()
		synctest.Wait()
		q.stop()
		if err := <-ended; !errors.Is(err, ErrStopped) {
			t.Errorf("stopped while waiting: %v", err)
		}
	})
}

func TestSeveralReadersAreAllServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, tm := testQueue(), testTeam("a")
		const readers = 5
		got := make(chan string, readers)
		for range readers {
			go func() {
				if e, err := q.next(t.Context()); err == nil {
					got <- e.Inbox
				}
			}()
		}
		// A reader that gives up must not take the wake-up of the others.
		ctx, cancel := context.WithCancel(t.Context())
		go q.next(ctx)
		synctest.Wait()
		for i := range readers {
			q.file(inboxKey(tm, fmt.Sprint(i)), "p", unkept(i))
		}
		cancel()
		seen := map[string]bool{}
		for range readers {
			seen[<-got] = true
		}
		if len(seen) != readers {
			t.Errorf("served %v", seen)
		}
	})
}

// A reader that was woken, and gives up before the event has settled, leaves the wake-up to the next one.
func TestAReaderThatGivesUpPassesTheWakeUpOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error), make(chan error, 1)
		go func() { _, err := q.next(ctx); first <- err }()
		synctest.Wait() // it waits first, so it is woken
		go func() { _, err := q.next(t.Context()); second <- err }()
		synctest.Wait()
		q.file(inboxKey(testTeam("a"), "alice"), "p", unkept(1))
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first got %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("the second got %v", err)
		}
	})
}

// A file can have changed even if its device, inode, time and size are the same.
func TestTheSameStampAgain(t *testing.T) {
	t.Parallel()
	const waiting, open = 1, 2 // what the queue has of the file
	for name, test := range map[string]struct {
		file   file
		cause  cause
		silent bool
		queue  int
		want   bool
	}{
		"looked at for a lock":     {cause: hinted},
		"swept":                    {cause: swept},
		"replaced":                 {cause: replaced},
		"written":                  {cause: written},
		"replaced within the tick": {cause: replaced, file: file{young: true}, want: true},
		"written within the tick":  {cause: written, file: file{young: true}, want: true},
		"the descriptor that waits shows that too":  {cause: written, file: file{young: true}, queue: open},
		"waiting without a descriptor":              {cause: replaced, file: file{young: true}, queue: waiting, want: true},
		"swept within the tick":                     {cause: swept, file: file{young: true}},
		"swept within the tick, and no events come": {cause: swept, file: file{young: true}, silent: true, want: true},
		"lock given back":                           {cause: unlocked, file: file{young: true}},
		"lock given back, written in place":         {cause: unlocked, file: file{torn: true}, want: true},
		"the same, and it still waits":              {cause: unlocked, file: file{torn: true}, queue: open},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := New(Options{})
			k := inboxKey(testTeam("a"), "alice")
			s := kept(t, 1, 10)
			if test.queue != 0 {
				before := s
				before.file = nil
				if test.queue == open {
					before = kept(t, 1, 10)
				}
				w.queue.file(k, "p", before)
			}
			f := test.file
			f.stamp = s.stamp
			if got := w.note(k, "p", &f, s, test.cause, test.silent); got != test.want {
				t.Errorf("news: %v, want %v", got, test.want)
			}
			w.queue.stop()
			if err := s.file.Close(); !errors.Is(err, os.ErrClosed) {
				t.Error("its descriptor is left open")
			}
		})
	}
}

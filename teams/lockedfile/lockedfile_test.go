package lockedfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/teams/errtest"
	"teambridge/teams/winetest"
)

// place is a directory with one file in it, and a Locker for it.
type place struct {
	t     *testing.T
	dir   string
	state string
	file  File
}

var must = errtest.Must

// locker is New for tests that do not test how long a lock is held: on a busy machine that can be longer than
// [MaxHold].
func locker(opts Options) *Locker {
	opts.Hold = time.Minute
	return New(opts)
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	p := &place{t: t, dir: filepath.Join(dir, "inboxes"), state: filepath.Join(dir, "state")}
	must(t, os.Mkdir(p.dir, 0o755))
	p.file = p.open()
	return p
}

func (p *place) open() File {
	p.t.Helper()
	// As package teams does: on Windows, a directory that is open through os.OpenRoot cannot be deleted.
	parent, err := os.OpenRoot(filepath.Dir(p.dir))
	must(p.t, err)
	defer parent.Close()
	root, err := parent.OpenRoot(filepath.Base(p.dir))
	must(p.t, err)
	p.t.Cleanup(func() { root.Close() })
	return File{Dir: root, Name: "x.json"}
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

func (p *place) write(content string) {
	p.t.Helper()
	must(p.t, os.WriteFile(p.path("x.json"), []byte(content), 0o644))
}

// want checks that the file has this content, and that its directory has nothing else except the names in else_.
func (p *place) want(content string, else_ ...string) {
	p.t.Helper()
	got, err := os.ReadFile(p.path("x.json"))
	must(p.t, err)
	if string(got) != content {
		p.t.Errorf("file holds %q, want %q", got, content)
	}
	p.wantNames(append(else_, "x.json")...)
}

func (p *place) wantNames(want ...string) {
	p.t.Helper()
	entries, err := os.ReadDir(p.dir)
	must(p.t, err)
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.t.Errorf("directory holds %q, want %q", got, want)
	}
}

func set(content string) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) { return []byte(content), nil }
}

func increment(old []byte) ([]byte, error) {
	n, err := strconv.Atoi(string(old))
	if old != nil && err != nil {
		return nil, err
	}
	return []byte(strconv.Itoa(n + 1)), nil
}

func TestTransformCreatesAndReplaces(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := locker(Options{Dir: p.state})
	for i := range 3 {
		must(t, l.Transform(t.Context(), p.file, increment))
		p.want(strconv.Itoa(i + 1))
	}
	if runtime.GOOS == "windows" { // where the access list of the directory decides
		return
	}
	info, err := os.Stat(p.path("x.json"))
	must(t, err)
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("new file has mode %o, want 600", got)
	}
	must(t, os.Chmod(p.path("x.json"), 0o640))
	must(t, l.Transform(t.Context(), p.file, increment))
	if info, err = os.Stat(p.path("x.json")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode not kept: %v, %v", info.Mode(), err)
	}
}

func TestZeroLocker(t *testing.T) {
	p := newPlace(t)
	var l Locker
	must(t, l.Transform(t.Context(), p.file, func([]byte) ([]byte, error) { return []byte("[]"), nil }))
	p.want("[]")
}

// A missing file and an empty one differ, and a change without a result does not touch the file.
func TestTransformLeavesTheFileAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := locker(Options{})
	if err := l.Transform(t.Context(), p.file, func(old []byte) ([]byte, error) {
		if old != nil {
			t.Errorf("missing file read as %q", old)
		}
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	p.wantNames()
	p.write("")
	before, _ := os.Stat(p.path("x.json"))
	boom := errors.New("boom")
	for _, change := range []func([]byte) ([]byte, error){
		func(old []byte) ([]byte, error) {
			if old == nil {
				t.Error("empty file read as missing")
			}
			return nil, nil
		},
		set(""),
		func([]byte) ([]byte, error) { return []byte("x"), boom },
	} {
		if err := l.Transform(t.Context(), p.file, change); err != nil && err != boom {
			t.Fatal(err)
		}
	}
	after, err := os.Stat(p.path("x.json"))
	if err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Errorf("file was touched: %v", err)
	}
	p.want("")
}

// Seen gets the final content of the file, and when it was read; after a change, that is under the lock.
func TestSeen(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	steps := map[Step]time.Time{}
	l := locker(Options{Dir: p.state, Before: func(s Step) { steps[s] = time.Now() }})
	failed := errors.New("no")
	for _, test := range []struct {
		name   string
		change func([]byte) ([]byte, error)
		from   Step
		locked bool
		want   []string
	}{
		{"no file", func([]byte) ([]byte, error) { return nil, nil }, StepRead, false, []string{"-"}},
		{"made", set("one"), StepReadBack, true, []string{"one"}},
		{"replaced", set("two"), StepReadBack, true, []string{"two"}},
		{"left as it is", set("two"), StepRead, false, []string{"two"}},
		{"refused", func([]byte) ([]byte, error) { return nil, failed }, "", false, nil},
	} {
		var got []string
		f := p.file
		f.Seen = func(content []byte, began, ended time.Time) {
			if got = append(got, string(content)); content == nil {
				got = []string{"-"}
			}
			if began.Before(steps[test.from]) || ended.Before(began) || time.Now().Before(ended) || !steps[StepUnlock].Before(began) {
				t.Errorf("%s: read from %v to %v, with %v", test.name, began, ended, steps)
			}
			if _, err := os.Stat(p.path("x.json.lock")); (err == nil) != test.locked {
				t.Errorf("%s: the lock: %v; want it held: %v", test.name, err, test.locked)
			}
		}
		if err := l.Transform(t.Context(), f, test.change); err != nil && !errors.Is(err, failed) {
			t.Fatal(err)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: seen %q, want %q", test.name, got, test.want)
		}
	}
	// If another program overwrites the file, Seen gets the content at the end.
	n := 0
	l = locker(Options{Dir: p.state, Before: func(s Step) {
		if s == StepReadBack && n == 0 {
			n++
			p.write("theirs")
		}
	}})
	f := p.file
	var got []string
	f.Seen = func(content []byte, _, _ time.Time) { got = append(got, string(content)) }
	add := func(old []byte) ([]byte, error) { return append(bytes.Clone(old), '+'), nil }
	must(t, l.Transform(t.Context(), f, add))
	p.want("theirs+")
	if !slices.Equal(got, []string{"theirs+"}) {
		t.Errorf("seen %q, want theirs+ once", got)
	}
}

// The result proves exclusion: no increment is lost between goroutines of two Lockers, with and without the flock.
func TestTransformExcludes(t *testing.T) {
	t.Parallel()
	for _, state := range []bool{true, false} {
		p := newPlace(t)
		dir := p.state
		if !state {
			dir = ""
		}
		lockers := []*Locker{locker(Options{Dir: dir, Wait: time.Minute}), locker(Options{Dir: dir, Wait: time.Minute})}
		var wg sync.WaitGroup
		const each, workers = 25, 8
		for i := range workers {
			file := p.open()
			wg.Go(func() {
				for range each {
					if err := lockers[i%2].Transform(t.Context(), file, increment); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		p.want(strconv.Itoa(each * workers))
	}
}

// If another program holds the lock, Transform gives up after Wait, and names the lock.
func TestLockHeldByALivingHolder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("old")
	must(t, os.Mkdir(p.path("x.json.lock"), 0o755))
	synctest.Test(t, func(t *testing.T) { // so that only waiting for this lock takes time
		l := locker(Options{Dir: p.state, Wait: 120 * time.Millisecond})
		err := l.Transform(t.Context(), p.file, set("new"))
		var locked *LockedError
		if !errors.Is(err, ErrLocked) || !errors.As(err, &locked) {
			t.Fatalf("got %v, want ErrLocked", err)
		}
		if locked.Ours || locked.Path != p.path("x.json.lock") || locked.Waited < 120*time.Millisecond {
			t.Errorf("got %+v", locked)
		}
	})
	p.want("old", "x.json.lock")
}

// If a Locker of ours holds the lock, the error says so.
func TestLockHeldByAnotherOfOurs(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := locker(Options{Dir: p.state, Wait: time.Second})
	for name, other := range map[string]*Locker{"same process": l, "flock": locker(Options{Dir: p.state, Wait: time.Second})} {
		err := l.Transform(t.Context(), p.file, func([]byte) ([]byte, error) {
			return nil, other.Transform(t.Context(), p.file, set("new"))
		})
		var locked *LockedError
		if !errors.As(err, &locked) || !locked.Ours {
			t.Errorf("%s: got %v, want a LockedError of ours", name, err)
		}
	}
	p.wantNames()
}

// A caller whose ctx is canceled while it waits for the lock gets that error, and the file does not change.
func TestCallerCancels(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	must(t, os.Mkdir(p.path("x.json.lock"), 0o755))
	ctx, cancel := context.WithCancel(t.Context())
	l := locker(Options{Before: func(s Step) { cancel() }})
	if err := l.Transform(ctx, p.file, set("new")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	p.wantNames("x.json.lock")
}

func TestStaleLockIsTakenOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("old")
	lock := p.path("x.json.lock")
	must(t, os.Mkdir(lock, 0o755))
	old := time.Now().Add(-StaleAfter - time.Second)
	must(t, os.Chtimes(lock, old, old))
	must(t, locker(Options{Wait: time.Minute}).Transform(t.Context(), p.file, set("new")))
	p.want("new")
}

// A lock with a time in the future never grows old by the wall clock. It is dead if it does not change for 10 s of
// our clock, and alive if it is touched.
func TestLockFromTheFuture(t *testing.T) {
	t.Parallel()
	for _, alive := range []bool{false, true} {
		p := newPlace(t)
		p.write("old")
		lock := p.path("x.json.lock")
		must(t, os.Mkdir(lock, 0o755))
		synctest.Test(t, func(t *testing.T) {
			// The bubble's clock starts in the year 2000, so every real file has a time in its future.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if alive {
				go func() {
					for i := 1; ctx.Err() == nil; i++ {
						at := time.Date(2030, 1, 1, 0, 0, i, 0, time.UTC)
						if err := os.Chtimes(lock, at, at); err != nil {
							t.Error(err)
						}
						select {
						case <-time.After(4 * time.Second):
						case <-ctx.Done():
						}
					}
				}()
			}
			start := time.Now()
			err := locker(Options{Wait: 30 * time.Second}).Transform(ctx, p.file, set("new"))
			took := time.Since(start)
			cancel()
			if alive && !errors.Is(err, ErrLocked) {
				t.Errorf("touched lock: got %v, want ErrLocked", err)
			}
			if !alive && (err != nil || took < StaleAfter) {
				t.Errorf("dead lock: got %v after %s, want success after 10 s", err, took)
			}
		})
		if alive {
			p.want("old", "x.json.lock")
		} else {
			p.want("new")
		}
	}
}

// A lock that is no empty directory is never taken over, however old it is.
func TestForeignLock(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		p := newPlace(t)
		p.write("old")
		lock := p.path("x.json.lock")
		must(t, os.WriteFile(lock, []byte("pid 1"), 0o644))
		old := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(lock, old, old))
		if err := locker(Options{}).Transform(t.Context(), p.file, set("new")); !errors.Is(err, ErrForeignLock) {
			t.Errorf("got %v, want ErrForeignLock", err)
		}
		p.want("old", "x.json.lock")
	})
	t.Run("directory with content", func(t *testing.T) {
		p := newPlace(t)
		p.write("old")
		lock := p.path("x.json.lock")
		must(t, os.MkdirAll(filepath.Join(lock, "sub"), 0o755))
		old := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(lock, old, old))
		if err := locker(Options{}).Transform(t.Context(), p.file, set("new")); !errors.Is(err, ErrForeignLock) {
			t.Errorf("got %v, want ErrForeignLock", err)
		}
		p.want("old", "x.json.lock")
	})
}

// makeAgain removes a lock directory and creates it again, as another program would. It sets a later time, because
// both directories could be created within one tick of the file system's clock.
func makeAgain(lock string) error {
	at := time.Now().Add(time.Second)
	return errors.Join(os.Remove(lock), os.Mkdir(lock, 0o755), os.Chtimes(lock, at, at))
}

// Nothing is written under a lock that another program took over, and the lock is not removed, even if its directory
// has our inode number.
func TestLockTakenOverInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, takeover := range map[string]func(lock string) error{
		"made again": makeAgain,
		"gone":       os.Remove,
		"touched": func(lock string) error {
			at := time.Now().Add(time.Millisecond)
			return os.Chtimes(lock, at, at)
		},
	} {
		p := newPlace(t)
		p.write("old")
		l := locker(Options{Before: func(s Step) {
			if s == StepFence {
				if err := takeover(p.path("x.json.lock")); err != nil {
					t.Error(err)
				}
			}
		}})
		err := l.Transform(t.Context(), p.file, set("new"))
		if !errors.Is(err, ErrCompromised) || errors.Is(err, ErrReplaced) {
			t.Errorf("%s: got %v, want ErrCompromised", name, err)
		}
		if name == "gone" {
			p.want("old")
		} else {
			p.want("old", "x.json.lock")
		}
	}
}

// A lock that is taken over after the rename does not undo the change that was read back, and is left to its new
// holder.
func TestLockTakenOverAfterTheWrite(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	lock := p.path("x.json.lock")
	l := locker(Options{Before: func(s Step) {
		if s == StepUnlock {
			if err := makeAgain(lock); err != nil {
				t.Error(err)
			}
		}
	}})
	must(t, l.Transform(t.Context(), p.file, set("new")))
	p.want("new", "x.json.lock")
}

// A change that takes too long under the lock is given up: the lock directory is removed at that instant, even before
// the step ends, and nothing is written. Once the file is being replaced, nothing is given up.
func TestHeldTooLong(t *testing.T) {
	t.Parallel()
	for step, written := range map[Step]bool{
		StepRead: false, StepWrite: false, StepFlush: false, StepFence: false, StepRename: true, StepReadBack: true, StepUnlock: true,
	} {
		t.Run(string(step), func(t *testing.T) {
			p := newPlace(t)
			p.write("old")
			synctest.Test(t, func(t *testing.T) {
				locked, slow := false, false
				l := New(Options{Before: func(s Step) {
					if s == StepLock {
						locked = true
						p.write("changed") // so that it is read and written again under the lock
					}
					if s != step || !locked || slow {
						return
					}
					slow = true
					held := func() bool {
						_, err := os.Stat(p.path("x.json.lock"))
						return err == nil
					}
					time.Sleep(MaxHold - 1)
					if synctest.Wait(); !held() {
						t.Error("the lock was released early")
					}
					time.Sleep(time.Nanosecond)
					if synctest.Wait(); held() != written {
						t.Errorf("the lock is held: %v; want %v", !written, written)
					}
				}})
				err := l.Transform(t.Context(), p.file, set("new"))
				if written && err != nil || !written && (!errors.Is(err, ErrHeldTooLong) || errors.Is(err, ErrReplaced)) {
					t.Errorf("got %v", err)
				}
				if !slow {
					t.Error("that step was not taken under the lock")
				}
			})
			if written {
				p.want("new")
			} else {
				p.want("changed")
			}
		})
	}
}

// A lock that was given up is no longer ours: its next holder keeps it.
func TestGivenUpLockIsLeftToTheNext(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	synctest.Test(t, func(t *testing.T) {
		lock := p.path("x.json.lock")
		l := New(Options{Before: func(s Step) {
			if s == StepFence {
				time.Sleep(MaxHold)
				synctest.Wait()
				if err := os.Mkdir(lock, 0o755); err != nil {
					t.Error(err)
				}
				p.write("theirs")
			}
		}})
		if err := l.Transform(t.Context(), p.file, set("new")); !errors.Is(err, ErrHeldTooLong) {
			t.Errorf("got %v, want ErrHeldTooLong", err)
		}
	})
	p.want("theirs", "x.json.lock")
}

// A second attempt under the lock, after another program has overwritten the first, is given up in the same way. The
// error says that the change may have been taken.
func TestHeldTooLongAfterTheRename(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("old")
	synctest.Test(t, func(t *testing.T) {
		overwritten := false
		l := New(Options{Before: func(s Step) {
			switch {
			case s == StepReadBack && !overwritten:
				overwritten = true
				p.write("theirs")
			case s == StepFlush && overwritten:
				time.Sleep(MaxHold)
				synctest.Wait()
			}
		}})
		if err := l.Transform(t.Context(), p.file, set("new")); !errors.Is(err, ErrHeldTooLong) || !errors.Is(err, ErrReplaced) {
			t.Errorf("got %v, want ErrHeldTooLong and ErrReplaced", err)
		}
	})
	p.want("theirs")
}

// If a program that ignores the lock overwrites our first changes, each is made again on the content of that program.
// A change that is not in the file is never reported as done.
func TestClobbered(t *testing.T) {
	t.Parallel()
	for times, want := range map[int]error{0: nil, 1: nil, 2: nil, 3: ErrClobbered} {
		p := newPlace(t)
		p.write("a")
		n := 0
		l := locker(Options{Before: func(s Step) {
			if s == StepReadBack && n < times {
				n++
				p.write("b" + strconv.Itoa(n))
			}
		}})
		err := l.Transform(t.Context(), p.file, func(old []byte) ([]byte, error) {
			return append(bytes.Clone(old), '!'), nil
		})
		if !errors.Is(err, want) {
			t.Errorf("clobbered %d times: got %v, want %v", times, err, want)
		}
		switch times {
		case 0:
			p.want("a!")
		case 3:
			p.want("b3")
		default:
			p.want(fmt.Sprintf("b%d!", times))
		}
	}
}

// Content that such a program writes between our read and the rename is not lost, but changed in turn.
func TestChangedBeforeTheRename(t *testing.T) {
	t.Parallel()
	for times, want := range map[int]error{1: nil, 2: nil, 3: ErrClobbered} {
		p := newPlace(t)
		p.write("a")
		n := 0
		l := locker(Options{Before: func(s Step) {
			if s == StepFence && n < times {
				n++
				p.write("b" + strconv.Itoa(n))
			}
		}})
		err := l.Transform(t.Context(), p.file, func(old []byte) ([]byte, error) {
			return append(bytes.Clone(old), '!'), nil
		})
		if !errors.Is(err, want) || errors.Is(err, ErrReplaced) {
			t.Errorf("changed %d times: got %v, want %v", times, err, want)
		}
		if times == 3 {
			p.want("b3")
		} else {
			p.want(fmt.Sprintf("b%d!", times))
		}
	}
}

// If a program that ignores the lock overwrites the change twice, and then only adds to the file, the change is in
// the file and succeeds.
func TestClobberedAndThenAddedTo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a")
	n := 0
	l := locker(Options{Before: func(s Step) {
		if s != StepReadBack {
			return
		}
		if n++; n < 3 {
			p.write("b")
			return
		}
		old, err := os.ReadFile(p.path("x.json"))
		if err != nil {
			t.Error(err)
		}
		p.write(string(old) + "?")
	}})
	if err := l.Transform(t.Context(), p.file, func(old []byte) ([]byte, error) {
		if bytes.Contains(old, []byte("!")) {
			return nil, nil
		}
		return append(bytes.Clone(old), '!'), nil
	}); err != nil {
		t.Error(err)
	}
	p.want("b!?")
}

// An error after the rename is ErrReplaced: the change may be in the file.
func TestErrorsAfterTheRename(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, tc := range map[string]struct {
		step   Step
		do     func(p *place) error
		refuse error // the guard's error from then on
		want   error
	}{
		"cannot be read back": {StepReadBack, func(p *place) error {
			return errors.Join(os.Remove(p.path("x.json")), os.Mkdir(p.path("x.json"), 0o755))
		}, nil, ErrNotRegular},
		"lock cannot be released": {StepUnlock, func(p *place) error {
			return keepTime(p.path("x.json.lock"), func() error {
				return os.Mkdir(p.path("x.json.lock/sub"), 0o755)
			})
		}, nil, nil},
		"guard refuses": {StepReadBack, func(*place) error { return nil }, no, no},
	} {
		p := newPlace(t)
		p.write("old")
		refuse := error(nil)
		p.file.Guard = func() error { return refuse }
		l := locker(Options{Before: func(s Step) {
			if s != tc.step {
				return
			}
			refuse = tc.refuse
			if err := tc.do(p); err != nil {
				t.Error(err)
			}
		}})
		err := l.Transform(t.Context(), p.file, set("new"))
		if !errors.Is(err, ErrReplaced) || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want ErrReplaced", name, err)
		}
	}
}

// keepTime does something to a directory and restores its time.
func keepTime(dir string, do func() error) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return errors.Join(do(), os.Chtimes(dir, info.ModTime(), info.ModTime()))
}

// If the directory is deleted before any step, and in one case made again, no file is made again.
func TestDirectoryDeletedInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, step := range []Step{StepLock, StepRead, StepWrite, StepFence, StepRename} {
		for _, again := range []bool{false, true} {
			p := newPlace(t)
			p.write("old")
			done := false
			l := locker(Options{Before: func(s Step) {
				if s != step || done {
					return
				}
				done = true
				if err := os.RemoveAll(p.dir); err != nil {
					t.Error(err)
				}
				if again {
					if err := os.Mkdir(p.dir, 0o755); err != nil {
						t.Error(err)
					}
				}
			}})
			if err := l.Transform(t.Context(), p.file, set("new")); !errors.Is(err, ErrGone) {
				t.Errorf("deleted before %s: got %v, want ErrGone", step, err)
			}
			if again {
				p.wantNames()
			} else if _, err := os.Stat(p.dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("deleted before %s: directory is there again", step)
			}
		}
	}
}

// A guard that refuses at any step prevents the change, and no new file remains.
func TestGuard(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	// How many calls of the guard pass, and whether a new file remains.
	for pass := range 4 {
		p := newPlace(t)
		calls := 0
		p.file.Guard = func() error {
			if calls++; calls > pass {
				return no
			}
			return nil
		}
		err := locker(Options{}).Transform(t.Context(), p.file, set("new"))
		if pass < 3 {
			if !errors.Is(err, no) {
				t.Errorf("guard refuses call %d: got %v", pass+1, err)
			}
			p.wantNames()
		} else {
			if err != nil {
				t.Error(err)
			}
			p.want("new")
		}
	}
}

func TestRefusesALink(t *testing.T) {
	t.Parallel()
	winetest.Skip(t, "a symbolic link looks like its target")
	p := newPlace(t)
	outside := filepath.Join(filepath.Dir(p.dir), "outside")
	must(t, os.WriteFile(outside, []byte("precious"), 0o644))
	must(t, os.Symlink(outside, p.path("x.json")))
	if err := locker(Options{}).Transform(t.Context(), p.file, set("new")); !errors.Is(err, ErrNotRegular) {
		t.Errorf("got %v, want ErrNotRegular", err)
	}
	if got, _ := os.ReadFile(outside); string(got) != "precious" {
		t.Errorf("the link's target holds %q", got)
	}
}

func TestRefusesWhatIsNoPlainFile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := locker(Options{})
	must(t, os.Mkdir(p.path("x.json"), 0o755))
	if err := l.Transform(t.Context(), p.file, set("new")); !errors.Is(err, ErrNotRegular) {
		t.Errorf("directory: got %v, want ErrNotRegular", err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "../x.json"} {
		if err := l.Transform(t.Context(), File{Dir: p.file.Dir, Name: name}, set("new")); err == nil {
			t.Errorf("name %q: no error", name)
		}
	}
	p.wantNames("x.json")
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("old")
	l := locker(Options{})
	big := bytes.Repeat([]byte("x"), MaxSize+1)
	if err := l.Transform(t.Context(), p.file, set(string(big))); !errors.Is(err, ErrTooLarge) {
		t.Errorf("new content: got %v, want ErrTooLarge", err)
	}
	p.want("old")
	must(t, os.Truncate(p.path("x.json"), MaxSize+1))
	if err := l.Transform(t.Context(), p.file, set("new")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("old content: got %v, want ErrTooLarge", err)
	}
}

// A change removes temporary files of this file that agents have left, and no others.
func TestLeftOverTemporaryFiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	keep := []string{".y.json123", ".x.json", "x.json.tmp.1a2b3c4d", ".x.jsonx.json1", ".x.json12a"}
	for _, name := range append(keep, ".x.json1", ".x.json998877") {
		must(t, os.WriteFile(p.path(name), nil, 0o600))
	}
	must(t, locker(Options{}).Transform(t.Context(), p.file, set("new")))
	p.want("new", keep...)
}

// However many of our processes wait, the lock directory is free for two thirds of the time: agents give up after a
// few tries.
func TestLockIsLeftFreeForOthers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	must(t, os.Mkdir(p.state, 0o700))
	const held, times = 20 * time.Millisecond, 5
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := locker(Options{Dir: p.state, Before: func(s Step) {
			if s == StepFence {
				time.Sleep(held)
			}
		}})
		for range times {
			if err := l.Transform(t.Context(), p.file, increment); err != nil {
				t.Error(err)
			}
		}
		if took, want := time.Since(start), times*held+(times-1)*freeFactor*held; took < want || took > want+want/10 {
			t.Errorf("%d changes of %s took %s, want %s", times, held, took, want)
		}
	})
}

// A name can be held once at a time, independently of other names.
func TestHold(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "locks")
	release, err := Hold(dir, "a")
	must(t, err)
	if _, err := Hold(dir, "a"); !errors.Is(err, ErrLocked) {
		t.Errorf("held twice: %v, want ErrLocked", err)
	}
	other, err := Hold(dir, "b")
	must(t, err)
	must(t, errors.Join(other(), release()))
	if release, err = Hold(dir, "a"); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

// The lock of a directory leaves nothing in it, and is free for the next holder.
func TestHoldDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	release, err := HoldDir(t.Context(), 0, dir)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	_, err = HoldDir(t.Context(), 0, dir)
	if locked, ok := errors.AsType[*LockedError](err); !ok || locked.Path != dir || locked.PID != os.Getpid() && locked.PID != 0 {
		t.Errorf("held by us: %+v (%v)", locked, err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if release, err = HoldDir(t.Context(), 0, dir); err != nil {
		t.Error(err)
	} else if err := release(); err != nil {
		t.Error(err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
		t.Errorf("left behind: %v, %v", all, err)
	}
	if _, err := HoldDir(t.Context(), time.Hour, filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// HoldWithin waits for a holder that releases the lock, and not forever for one that does not.
func TestHoldWithin(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "locks")
	release, err := Hold(dir, "a")
	must(t, err)
	if _, err := HoldWithin(t.Context(), time.Millisecond, dir, "a"); !errors.Is(err, ErrLocked) {
		t.Errorf("for 1 ms: %v, want ErrLocked", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := HoldWithin(ended, time.Hour, dir, "a"); !errors.Is(err, ErrLocked) {
		t.Errorf("with a context that has ended: %v, want ErrLocked", err)
	}
	type held struct {
		release func() error
		err     error
	}
	next := make(chan held)
	go func() {
		release, err := HoldWithin(t.Context(), time.Hour, dir, "a")
		next <- held{release, err}
	}()
	if err := release(); err != nil {
		t.Error(err)
	}
	if h := <-next; h.err != nil {
		t.Error(h.err)
	} else if err := h.release(); err != nil {
		t.Error(err)
	}
}

// Held reports a holder, mistakes no other caller of Held for one, and prevents nobody from taking the lock.
func TestHeld(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "locks")
	held := func(want bool) {
		t.Helper()
		if got, err := Held(dir, "a"); err != nil || got != want {
			t.Errorf("held %v, %v; want %v", got, err, want)
		}
	}
	held(false)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking made the directory: %v", err)
	}
	release, err := Hold(dir, "a")
	must(t, err)
	held(true)
	must(t, release())
	held(false)

	var lookers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		lookers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := Held(dir, "b"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3000 {
		release, err := Hold(dir, "b")
		if err != nil {
			t.Errorf("with others looking: %v", err)
			break
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	lookers.Wait()
}

// The slow steps come before the lock directory is made: the read, the caller's commit, and the flush. The file is
// read and written again under the lock only if it has changed.
func TestPreparedBeforeTheLock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("1")
	var steps []string
	l := locker(Options{Dir: p.state, Before: func(s Step) {
		if s == StepLock && len(steps) == 4 {
			p.write("5")
		}
		_, err := os.Stat(p.path("x.json.lock"))
		steps = append(steps, fmt.Sprintf("%s %v", s, err == nil))
	}})
	f := p.file
	f.Commit = func() error {
		_, err := os.Stat(p.path("x.json.lock"))
		steps = append(steps, fmt.Sprintf("commit %v", err == nil))
		return nil
	}
	want := func(want ...string) {
		t.Helper()
		if !slices.Equal(steps, want) {
			t.Errorf("steps, each with whether the lock was held:\n got %q\nwant %q", steps, want)
		}
		steps = nil
	}
	must(t, l.Transform(t.Context(), f, increment))
	if !canExchange { // no file can be prepared that must be written next to this one
		p.want("2")
		want("read false", "commit false", "lock false", "write true", "flush true", "fence true", "rename true", "readback true", "unlock true")
		return
	}
	p.want("6")
	want("read false", "commit false", "write false", "flush false", "lock false",
		"read true", "write true", "flush true", "fence true", "rename true", "readback true", "unlock true")
	steps = append(steps, "again")
	must(t, l.Transform(t.Context(), f, increment))
	p.want("7")
	want("again", "read false", "commit false", "write false", "flush false", "lock false",
		"fence true", "rename true", "readback true", "unlock true")
	must(t, l.Transform(t.Context(), f, func([]byte) ([]byte, error) { return nil, nil }))
	want("read false")

	// If the caller's commit fails, nothing is written, and no lock is taken.
	no := errors.New("no")
	f.Commit = func() error { return no }
	if err := l.Transform(t.Context(), f, increment); err != no {
		t.Errorf("got %v, want the error as it is", err)
	}
	want("read false")
	p.want("7")
}

// A write in place between the read and the lock is not undone, even if it has the same size and falls into the same
// tick of the file's time.
func TestSameSizeSameTime(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("1")
	info, err := os.Stat(p.path("x.json"))
	must(t, err)
	l := locker(Options{Dir: p.state, Before: func(s Step) {
		if s == StepLock {
			p.write("5")
			if err := os.Chtimes(p.path("x.json"), info.ModTime(), info.ModTime()); err != nil {
				t.Error(err)
			}
		}
	}})
	must(t, l.Transform(t.Context(), p.file, increment))
	p.want("6")
}

// A result or an error of change for a file that is being written in place does not count: change is called again
// under the lock.
func TestReadWhileItIsWritten(t *testing.T) {
	t.Parallel()
	for name, torn := range map[string]string{"empty": "", "torn": "[1"} {
		p := newPlace(t)
		p.write(torn)
		l := locker(Options{Dir: p.state, Before: func(s Step) {
			if s == StepLock {
				p.write("[1]")
			}
		}})
		err := l.Transform(t.Context(), p.file, func(old []byte) ([]byte, error) {
			if !bytes.HasSuffix(old, []byte("]")) && len(old) > 0 {
				return nil, errors.New("torn")
			}
			if len(old) == 0 {
				return nil, nil
			}
			return append(bytes.Clone(old), '!'), nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p.want("[1]!")
	}
}

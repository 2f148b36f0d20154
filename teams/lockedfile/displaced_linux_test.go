package lockedfile

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// displaced returns the paths of the old contents that are kept.
func (p *place) displaced() []string {
	p.t.Helper()
	paths, err := filepath.Glob(filepath.Join(p.state, "*", "*"))
	must(p.t, err)
	return paths
}

// If an agent has a file open while it is replaced, the old file keeps a name that can be found, from the exchange
// until long after the lock was released: a newer agent asks the kernel for the name before it locks.
func TestReplacedFileKeepsAName(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a")
	fd := -1
	check := func(when string) {
		t.Helper()
		name, err := os.Readlink(filepath.Join("/proc/self/fd", strconv.Itoa(fd)))
		if err != nil || strings.HasSuffix(name, "(deleted)") {
			t.Errorf("%s the file is called %q, %v", when, name, err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != "a" {
			t.Errorf("%s its name leads to %q, %v", when, got, err)
		}
	}
	l := locker(Options{Dir: p.state, Before: func(s Step) {
		switch s {
		case StepRename:
			var err error
			if fd, err = unix.Open(p.path("x.json"), unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
				t.Error(err)
			}
		case StepReadBack, StepUnlock:
			check("before " + string(s))
		}
	}})
	must(t, l.Transform(t.Context(), p.file, set("b")))
	check("in the end")
	if err := unix.Close(fd); err != nil {
		t.Error(err)
	}
	p.want("b")
}

// An agent that locked the replaced file, under the name that this file has now, can change it as if it had the lock:
// its changes between our reading and the end of our lock are in the new file, together with ours.
func TestLockOnWhatWasReplaced(t *testing.T) {
	t.Parallel()
	for _, when := range []Step{StepRead, StepWrite, StepFence, StepRename, StepReadBack} {
		t.Run(string(when), func(t *testing.T) {
			p := newPlace(t)
			p.write("a")
			must(t, locker(Options{Dir: p.state}).Transform(t.Context(), p.file, set("b")))
			lock := p.displaced()[0] + ".lock"
			synctest.Test(t, func(t *testing.T) {
				finished := make(chan struct{})
				at := func() {
					if err := os.Mkdir(lock, 0o755); err != nil {
						t.Error(err)
					}
					old, err := os.ReadFile(p.path("x.json"))
					if err != nil {
						t.Error(err)
					}
					go func() {
						defer close(finished)
						if when == StepRead || when == StepReadBack {
							time.Sleep(20 * time.Millisecond) // we have continued by then, or wait
						}
						if err := os.WriteFile(p.path("tmp"), append(old, '?'), 0o644); err != nil {
							t.Error(err)
						}
						if err := os.Rename(p.path("tmp"), p.path("x.json")); err != nil {
							t.Error(err)
						}
						if err := os.Remove(lock); err != nil {
							t.Error(err)
						}
					}()
					if when != StepRead && when != StepReadBack {
						<-finished // all of it at one moment of ours
					}
				}
				l := locker(Options{Dir: p.state, Before: func(s Step) {
					if s == when && at != nil {
						do := at
						at = nil
						do()
					}
				}})
				err := l.Transform(t.Context(), p.file, func(old []byte) ([]byte, error) {
					if slices.Contains(old, '!') {
						return nil, nil
					}
					return append(slices.Clip(old), '!'), nil
				})
				if err != nil {
					t.Error(err)
				}
				if _, err := os.Lstat(lock); err == nil {
					t.Error("the lock was released while the agent was at work")
				}
				<-finished
			})
			got, err := os.ReadFile(p.path("x.json"))
			if err != nil || !slices.Contains([]string{"b!?", "b?!"}, string(got)) {
				t.Errorf("file holds %q, %v; want both changes", got, err)
			}
			p.wantNames("x.json")
		})
	}
}

// A dead agent's lock of the replaced file delays nobody for long.
func TestDeadLockOnWhatWasReplaced(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a")
	synctest.Test(t, func(t *testing.T) {
		l := locker(Options{Dir: p.state})
		must(t, l.Transform(t.Context(), p.file, set("b")))
		lock := p.displaced()[0] + ".lock"
		must(t, os.Mkdir(lock, 0o755))
		start := time.Now()
		if err := l.Transform(t.Context(), p.file, set("c")); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > MaxHold {
			t.Errorf("it was waited for for %s", took)
		}
		time.Sleep(StaleAfter)
		start = time.Now()
		if err := l.Transform(t.Context(), p.file, set("d")); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("it was waited for for %s, and was stale", took)
		}
	})
	p.want("d")
}

// A change that another program makes in the last instant, after our last look, comes out of the exchange, is put
// back, and is changed in turn.
func TestChangedAtTheRename(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(p *place, content string){
		"in place": (*place).write,
		"by rename": func(p *place, content string) {
			if err := os.WriteFile(p.path("tmp"), []byte(content), 0o644); err != nil {
				p.t.Error(err)
			}
			if err := os.Rename(p.path("tmp"), p.path("x.json")); err != nil {
				p.t.Error(err)
			}
		},
	} {
		p := newPlace(t)
		p.write("a")
		done := false
		l := locker(Options{Dir: p.state, Before: func(s Step) {
			if s == StepRename && !done {
				done = true
				write(p, "theirs")
			}
		}})
		if err := l.Transform(t.Context(), p.file, func(old []byte) ([]byte, error) {
			return append(slices.Clip(old), '!'), nil
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p.want("theirs!")
	}
}

// A file that is deleted in the last instant is made again, with the change applied to no content.
func TestDeletedAtTheRename(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a")
	done := false
	l := locker(Options{Dir: p.state, Before: func(s Step) {
		if s == StepRename && !done {
			done = true
			if err := os.Remove(p.path("x.json")); err != nil {
				t.Error(err)
			}
		}
	}})
	if err := l.Transform(t.Context(), p.file, func(old []byte) ([]byte, error) {
		return append(slices.Clip(old), '!'), nil
	}); err != nil {
		t.Error(err)
	}
	p.want("!")
}

// A file that is deleted at the rename and made again is exchanged as before: the failed exchange proves nothing
// about the file system.
func TestDeletedAtTheRenameAndMadeAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("1")
	deleted := false
	l := locker(Options{Dir: p.state, Before: func(s Step) {
		switch {
		case s == StepRename && !deleted:
			deleted = true
			if err := os.Remove(p.path("x.json")); err != nil {
				t.Error(err)
			}
		case s == StepRead && deleted:
			p.write("5")
		}
	}})
	if err := l.Transform(t.Context(), p.file, increment); err != nil {
		t.Error(err)
	}
	p.want("6")
	if n := len(p.displaced()); n != 1 {
		t.Errorf("%d old contents are kept, want one: the file was exchanged", n)
	}
}

// Replaced content is kept for some time, and not forever.
func TestDisplacedContentIsRemoved(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("0")
	synctest.Test(t, func(t *testing.T) {
		l := locker(Options{Dir: p.state})
		for range 10 {
			time.Sleep(displacedLife + time.Millisecond)
			if err := l.Transform(t.Context(), p.file, increment); err != nil {
				t.Error(err)
			}
			if n := len(p.displaced()); n != 1 {
				t.Errorf("%d contents are kept, want the last", n)
			}
		}
		if err := Sweep(p.state); err != nil || len(p.displaced()) != 1 {
			t.Errorf("swept up at once: %v, %d contents are left", err, len(p.displaced()))
		}
		time.Sleep(displacedLife + time.Millisecond)
		if err := Sweep(p.state); err != nil || len(p.displaced()) != 0 {
			t.Errorf("swept up: %v, %d contents are left", err, len(p.displaced()))
		}
	})
	p.want("10")
	if err := Sweep(filepath.Join(p.state, "none")); err != nil {
		t.Error(err)
	}
}

// If the state directory is on another file system, the files cannot be exchanged, and are replaced instead.
func TestStateOnAnotherFileSystem(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	state, err := os.MkdirTemp("/dev/shm", "lockedfile-test-")
	if err != nil {
		t.Skipf("there is no other file system: %v", err)
	}
	defer os.RemoveAll(state)
	var a, b syscall.Stat_t
	must(t, syscall.Stat(state, &a))
	must(t, syscall.Stat(p.dir, &b))
	if a.Dev == b.Dev {
		t.Skip("there is no other file system")
	}
	p.write("1")
	l := locker(Options{Dir: state})
	for range 3 {
		if err := l.Transform(t.Context(), p.file, increment); err != nil {
			t.Error(err)
		}
	}
	p.want("4")
	p.state = state
	if n := len(p.displaced()); n != 0 {
		t.Errorf("%d files are kept where none can be exchanged", n)
	}
}

// The same holds if the system can exchange files but the file system cannot, which only the attempt shows: HFS+ and
// network file systems on macOS, old file systems on Linux.
func TestFileSystemWithoutExchange(t *testing.T) {
	t.Parallel()
	for _, refused := range []error{syscall.ENOTSUP, syscall.EINVAL, syscall.ENOSYS} {
		p := newPlace(t)
		renames, others := 0, 0
		l := locker(Options{
			Dir:     p.state,
			refused: &os.LinkError{Op: "exchange", Err: refused},
			Before: func(s Step) {
				switch {
				case s == StepRename:
					renames++
				case s == StepReadBack && others > 0: // a failed exchange is no change by another program
					others--
					p.write("10")
				}
			},
		})
		for n := range 3 { // the first makes the file
			if err := l.Transform(t.Context(), p.file, increment); err != nil {
				t.Errorf("%v, change %d: %v", refused, n, err)
			}
		}
		p.want("3")
		if n := len(p.displaced()); n != 0 {
			t.Errorf("%v: %d files are kept where none can be exchanged", refused, n)
		}
		if renames != 6 {
			t.Errorf("%v: it was replaced in %d attempts, want 2 for each change: an exchange and a rename", refused, renames)
		}
		others = attempts - 1
		if err := l.Transform(t.Context(), p.file, increment); err != nil {
			t.Errorf("%v, overwritten %d times: %v", refused, attempts-1, err)
		}
		p.want("11")
	}
}

// If another program deletes a prepared file, it is prepared again, and the files are still exchanged.
func TestPreparedFileIsDeleted(t *testing.T) {
	t.Parallel()
	for _, step := range []Step{StepLock, StepFence, StepRename} {
		p := newPlace(t)
		p.write("1")
		once := false
		l := locker(Options{Dir: p.state, Before: func(s Step) {
			if s != step || once {
				return
			}
			once = true
			for _, path := range p.displaced() {
				if err := os.Remove(path); err != nil {
					t.Error(err)
				}
			}
		}})
		if err := l.Transform(t.Context(), p.file, increment); err != nil {
			t.Error(err)
		}
		p.want("2")
		if n := len(p.displaced()); n != 1 {
			t.Errorf("deleted before %s: %d old contents are kept, want one: the file was exchanged", step, n)
		}
	}
}

// A Sweep at any step of a change removes no file that the change needs: it skips files that it cannot flock.
func TestSweepDuringAChange(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("1")
	synctest.Test(t, func(t *testing.T) {
		l := locker(Options{Dir: p.state, Before: func(s Step) {
			before := p.displaced()
			if err := Sweep(p.state); err != nil {
				t.Error(err)
			}
			if after := p.displaced(); len(after) != len(before) {
				t.Errorf("before %s: %q were swept up, of %q", s, after, before)
			}
			if s == StepLock {
				time.Sleep(2 * displacedLife) // the prepared file gets old
			}
		}})
		for range 3 {
			time.Sleep(2 * displacedLife)
			if err := l.Transform(t.Context(), p.file, increment); err != nil {
				t.Error(err)
			}
		}
		if n := len(p.displaced()); n != 1 {
			t.Errorf("%d old contents are kept, want one", n)
		}
	})
	p.want("4")
}

// The prepared file of a killed process is removed by the next one.
func TestLeftOverPreparedFile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("1")
	l := locker(Options{Dir: p.state})
	must(t, l.Transform(t.Context(), p.file, increment))
	left := filepath.Join(filepath.Dir(p.displaced()[0]), newPrefix+"abc")
	for _, remove := range []func() error{
		func() error { return l.Transform(t.Context(), p.file, increment) },
		func() error { return Sweep(p.state) },
	} {
		must(t, os.WriteFile(left, nil, 0o600))
		if err := remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(left); err == nil {
			t.Error("it is still there")
		}
	}
}

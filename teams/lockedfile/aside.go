package lockedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// asides are what stood in the place of a file before: it is exchanged with its
// new content, and stays under another name, in a directory of ours, for asideLife
// at least.
//
// A newer Claude Code looks up the real path of an inbox before it locks it: it opens
// the file and asks the kernel for the name of what it has open. Replaced in
// between, within some 35 µs, the file has no name any more. The agent then does not
// lock, works on the rows that it has read, cannot remove them, and takes them
// again: at 100 messages a second up to 11 of 1000 came twice (2.1.329). A file that
// was exchanged still has a name, and the agent makes the lock that belongs to that:
// it changes the inbox under a lock that is not the inbox's. What it does before the
// exchange shows in that, and await looks for such locks before ours is released.
type asides struct {
	dir      *os.Root // nil: there is no place for them
	unusable bool     // the files cannot be exchanged
}

// asideLife is how long an aside is kept: for longer than an agent's thread is kept
// waiting, between its two system calls, by a machine that has much to do.
const asideLife = 50 * time.Millisecond

// asides opens the directory of those of f, and removes those that are old. The
// flock is held.
func (l *Locker) asides(f File) (*asides, error) {
	if l.opts.Dir == "" || !canExchange {
		return &asides{}, nil
	}
	path := filepath.Join(l.opts.Dir, strings.TrimSuffix(filepath.Base(l.flockPath(f)), lockSuffix))
	dir, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(path, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			dir, err = os.OpenRoot(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: a place for what stands there now: %w", f.Path(), err)
	}
	a := &asides{dir: dir}
	if err := a.tidy(time.Now().Add(-asideLife)); err != nil {
		_ = dir.Close() // it was only read
		return nil, fmt.Errorf("lock %s: what stood there before, in %s: %w", f.Path(), path, err)
	}
	return a, nil
}

// asideName is the name of what is set aside now.
func asideName(now time.Time) string { return strconv.FormatInt(now.UnixNano(), 10) }

// tidy removes what was set aside before a time.
func (a *asides) tidy(before time.Time) error {
	names, err := a.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		at, err := strconv.ParseInt(strings.TrimSuffix(name, lockSuffix), 10, 64)
		if err != nil {
			continue // none of ours
		}
		if strings.HasSuffix(name, lockSuffix) {
			// Of an agent that was killed: others remove theirs.
			at += StaleAfter.Nanoseconds()
		}
		if now := time.Now(); time.Unix(0, at).Before(before) || time.Unix(0, at).After(now.Add(StaleAfter)) {
			if err := ignoreNotExist(a.dir.Remove(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sweep removes what a [Locker] has set aside in dir, but the newest, which somebody
// may be looking for. Else the next change of a file removes what stood there before.
// A dir that does not exist has nothing.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreNotExist(err)
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		root, err := os.OpenRoot(filepath.Join(dir, e.Name()))
		if err == nil {
			err = (&asides{dir: root}).tidy(time.Now().Add(-asideLife))
			_ = root.Close() // it was only read
		}
		errs = append(errs, ignoreNotExist(err))
	}
	return errors.Join(errs...)
}

func (a *asides) names() ([]string, error) {
	d, err := a.dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// usable reports whether f can be exchanged with a file in here: they have to be on
// one file system.
func (a *asides) usable(f File) bool {
	return a.dir != nil && !a.unusable && sameDevice(a.dir, f.Dir)
}

// await waits for those who have found the file under the name of an aside, and so
// have locked that: they change the file as if they had its lock. It returns true if
// there was one and it has finished. It needs less than a millisecond: one that has
// not within [MaxHold]/4 is taken for dead.
func (a *asides) await() bool {
	if a.dir == nil {
		return false
	}
	start := time.Now()
	for came := false; ; came = true {
		names, err := a.names()
		if err != nil {
			return came
		}
		there := false
		for _, name := range names {
			there = there || strings.HasSuffix(name, lockSuffix)
		}
		if !there || time.Since(start) > MaxHold/4 {
			return came && !there
		}
		time.Sleep(time.Millisecond)
	}
}

func (a *asides) close() {
	if a.dir != nil {
		_ = a.dir.Close() // nothing was written through it that is not flushed
	}
}

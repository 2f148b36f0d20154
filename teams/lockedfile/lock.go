package lockedfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"teambridge/teams/flock"
)

// lockMutex takes the in-process mutex of f.
func (l *Locker) lockMutex(ctx context.Context, f File, start time.Time) (unlock func(), err error) {
	key := f.Path()
	l.mu.Lock()
	t := l.files[key]
	if t == nil {
		t = &fileMutex{ch: make(chan struct{}, 1)}
		if l.files == nil {
			l.files = map[string]*fileMutex{}
		}
		l.files[key] = t
	}
	t.waiting++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		if t.waiting--; t.waiting == 0 {
			delete(l.files, key)
		}
		l.mu.Unlock()
	}
	select {
	case t.ch <- struct{}{}:
		return func() { <-t.ch; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, waitError(ctx, f, &LockedError{Path: f.Path(), Ours: true, Waited: time.Since(start)})
	}
}

// flock takes the lock file of f in the state directory.
func (l *Locker) flock(ctx context.Context, f File, start time.Time) (unlock func(), err error) {
	if l.opts.Dir == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(l.opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: state directory: %w", f.Path(), err)
	}
	path := l.flockPath(f)
	// Never remove the file: if it were removed, two processes could lock two files of the same name.
	free, err := flock.Lock(ctx, path)
	if ctx.Err() != nil {
		if err == nil {
			_ = free()
		}
		return nil, waitError(ctx, f, &LockedError{Path: path, Ours: true, Waited: time.Since(start)})
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// Ignore the error: closing the descriptor always frees the lock.
	unlock = func() { _ = free() }
	if err := waitFree(ctx, path); err != nil {
		unlock()
		return nil, waitError(ctx, f, &LockedError{Path: path, Ours: true, Waited: time.Since(start)})
	}
	return unlock, nil
}

// An agent that finds its inbox locked tries ten more times, after 5 ms at first and later after up to 100
// ms, and then gives up silently. An agent before 2.1.257 then takes the row that it could not mark a second
// time: with 100 messages a second and the lock held for 60 % of the time, 3 of 1000 came twice. So after
// each of our locks, the lock stays free for twice as long as it was held. If it is held for at most a third
// of the time, all eleven tries fail in one of 100,000 cases.
const (
	freeFactor = 2
	maxFree    = 100 * time.Millisecond
)

// leaveFree records the time until which the lock directory is left to others, as the modification time of
// the flock file. If that fails, we only take the lock sooner.
func (l *Locker) leaveFree(f File, held time.Duration) {
	if l.opts.Dir == "" {
		return
	}
	until := time.Now().Add(min(freeFactor*held, maxFree))
	_ = os.Chtimes(l.flockPath(f), until, until)
}

// waitFree waits until the time that leaveFree recorded. The caller holds the flock, so our other processes
// wait, too.
func waitFree(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil // as if no time were recorded
	}
	rest := time.Until(info.ModTime())
	if rest <= 0 || rest > maxFree {
		return nil // the time has passed, or the clock was set back
	}
	select {
	case <-time.After(rest):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flockPath returns the path of the flock file of f.
func (l *Locker) flockPath(f File) string {
	return filepath.Join(l.opts.Dir, lockFile(f.Path()))
}

// dirLock is a lock directory that we hold. After its time limit, it is removed, unless the holder has begun
// to replace the file.
type dirLock struct {
	file     File
	name     string
	made     fs.FileInfo
	since    time.Time
	hold     time.Duration
	replaced bool // the file was replaced under this lock

	mu    sync.Mutex
	phase phase
	err   error // why the lock was given up
	timer *time.Timer
}

// phase is the progress of the holder of a lock directory.
type phase int

const (
	preparing  phase = iota // the lock can be given up
	committing              // the file is being replaced: only the holder may remove the lock
	abandoned               // the lock was given up, and the holder must not write
)

// commit makes the lock stay until release. The error means that the lock was already given up.
func (d *dirLock) commit() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase == preparing && time.Since(d.since) > d.hold {
		d.giveUp() // the process was stopped, so the timer has not run yet
	}
	if d.phase == abandoned {
		return d.err
	}
	d.phase = committing
	return nil
}

// retry allows the lock to be given up again, for another attempt.
func (d *dirLock) retry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase == committing {
		d.phase = preparing
		d.timer.Reset(d.hold - time.Since(d.since))
	}
}

// expire gives the lock up, if that is allowed.
func (d *dirLock) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase == preparing {
		d.giveUp()
	}
}

// giveUp removes the lock directory if it is still ours. The caller holds d.mu.
func (d *dirLock) giveUp() {
	d.phase = abandoned
	if d.err = d.check(); d.err == nil {
		d.err = unknown(fmt.Errorf("%w (%s)", ErrHeldTooLong, d.hold), d.replaced)
		if err := d.remove(); err != nil {
			d.err = errors.Join(d.err, err)
		}
	}
}

// lockDir makes the lock directory of f. It takes over a stale one.
func lockDir(ctx context.Context, f File, start time.Time, hold time.Duration) (*dirLock, error) {
	name := LockName(f.Name)
	path := filepath.Join(f.Dir.Name(), name)
	var seen fs.FileInfo // the lock of another program ...
	var seenAt time.Time // ... and when we first saw it in this state
	for {
		since := time.Now()
		err := f.Dir.Mkdir(name, 0o777)
		if err == nil {
			lock, err := newDirLock(f, name, since, hold)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a deletion of the whole directory has removed the lock
			}
			return lock, err
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, f.wrapDir("lock", err)
		}
		info, err := f.Dir.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			if err := ctx.Err(); err != nil {
				return nil, waitError(ctx, f, &LockedError{Path: path, Waited: time.Since(start)})
			}
			continue // the lock was just released
		}
		if err != nil {
			return nil, f.wrap("lock", err)
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("lock %s: %w: a file is at %s", f.Path(), ErrForeignLock, path)
		}
		if seen == nil || !sameLock(seen, info) {
			seen, seenAt = info, time.Now()
		}
		age := time.Since(info.ModTime())
		if age > StaleAfter || age < 0 && time.Since(seenAt) > StaleAfter {
			if err := breakStale(f, name, info); err != nil {
				return nil, err
			}
			continue
		}
		select {
		case <-time.After(5*time.Millisecond + rand.N(45*time.Millisecond)):
		case <-ctx.Done():
			return nil, waitError(ctx, f, &LockedError{Path: path, Age: age, Waited: time.Since(start)})
		}
	}
}

func newDirLock(f File, name string, since time.Time, hold time.Duration) (*dirLock, error) {
	info, err := f.Dir.Lstat(name)
	if err != nil {
		return nil, f.wrap("lock", err)
	}
	d := &dirLock{file: f, name: name, made: info, since: since, hold: hold}
	d.mu.Lock() // until timer is set
	defer d.mu.Unlock()
	d.timer = time.AfterFunc(hold, d.expire)
	return d, nil
}

// breakStale removes a lock directory that was stale at the time of info.
func breakStale(f File, name string, info fs.FileInfo) error {
	err := removeLock(f, name, info)
	if isNotEmpty(err) {
		return fmt.Errorf("lock %s: %w: %s is a directory that is not empty",
			f.Path(), ErrForeignLock, filepath.Join(f.Dir.Name(), name))
	}
	if err != nil {
		return f.wrap("break the stale lock of", err)
	}
	return nil
}

// removeLock removes a lock directory if it still is info. It checks right before, because another program
// may have taken the lock over; no system call checks and removes in one step.
func removeLock(f File, name string, info fs.FileInfo) error {
	now, err := f.Dir.Lstat(name)
	if err == nil && sameLock(info, now) {
		err = f.Dir.Remove(name)
	}
	return ignoreNotExist(err)
}

// check fails unless the lock directory is still the one that we made.
func (d *dirLock) check() error {
	now, err := d.file.Dir.Lstat(d.name)
	if err == nil && sameLock(d.made, now) {
		return nil
	}
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || gone(d.file.Dir)) {
		return d.file.wrap("look at the lock of", err)
	}
	return unknown(fmt.Errorf("lock %s: %w", filepath.Join(d.file.Dir.Name(), d.name), ErrCompromised), d.replaced)
}

// release removes the lock directory if it is still ours and was not given up. A lock of another program is
// no error: the rename was made while the lock was ours.
func (d *dirLock) release() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.Stop()
	if d.phase == abandoned {
		return nil
	}
	d.phase = abandoned
	return d.remove()
}

// remove removes the lock directory if it is still ours.
func (d *dirLock) remove() error {
	if err := removeLock(d.file, d.name, d.made); err != nil {
		return d.file.wrap("release the lock of", err)
	}
	return nil
}

// sameLock also compares the times, because inode numbers are reused at once.
func sameLock(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}

// waitError distinguishes the caller's cancellation from our own deadline.
func waitError(ctx context.Context, f File, locked *LockedError) error {
	if cause := context.Cause(ctx); !errors.Is(cause, errWaited) {
		return fmt.Errorf("lock %s: %w (%w)", f.Path(), cause, locked)
	}
	return fmt.Errorf("lock %s: %w", f.Path(), locked)
}

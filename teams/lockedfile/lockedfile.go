// Package lockedfile changes a file that other programs change too, under the
// lock those programs take, so that nobody's change is lost.
//
// [Locker.Transform] is the one entry point. It owns lock, read, change, write
// and read-back; a caller only says what the new content is.
//
// # The locks
//
// Three locks are taken in turn, with one deadline for all of them:
//
//  1. a mutex inside this process, because the other two cannot be seen by the
//     race detector and cost system calls;
//  2. flock(2) on a file in our own state directory, so that of all our
//     processes only one contends for the third; the kernel frees it when the
//     holder dies. The next of us then leaves the third lock free for twice as
//     long as the last one held it: agents try only so often;
//  3. the directory NAME.lock beside the file, made with mkdir and removed with
//     rmdir. This is the lock of the npm package proper-lockfile, and the one
//     Claude Code takes. Only this one keeps other programs out.
//
// A lock directory whose modification time is over 10 s old is taken over, as
// those programs do; one whose time lies in the future is taken over once it
// has not changed for 10 s by our own monotonic clock. A regular file in its
// place, or a directory with something in it, blocks those programs for good:
// that is [ErrForeignLock], and nothing here removes it.
//
// # What is promised
//
// The file is replaced by rename, so a reader sees the old or the new content
// and never a part; where the system can, by exchanging it with the new one, which
// shows whether it still was what had been read. It is read back under the same lock and compared byte for
// byte; when another program that ignores the lock has overwritten it, or has
// written it right before, the change is made again on what is there now, three
// times at most.
//
// The lock is held for 2 s at most: a change that takes longer is given up
// unwritten. Right before the rename, and again before the rmdir, the lock
// directory must still be the one we made, its time equal to the nanosecond.
// A process that was stopped for longer than the 10 s finds another's lock
// there and writes and removes nothing.
//
// # What is not
//
// Between the last look at the lock and the rename stand a few system calls. A
// process stopped exactly there, for over 10 s, writes without the lock. Where
// files can be exchanged it finds what was written meanwhile, and puts that back;
// where they cannot, it is lost, and a file that is deleted exactly there, with the
// directory about to follow, comes back and can keep the directory from going.
// The content is flushed to disk before the rename, the directory is not: after
// a power cut the file can have its old content. Access control lists and
// extended attributes of the old file are not carried over; mode and owner are.
package lockedfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Durations of the locks. StaleAfter is proper-lockfile's and Claude Code's
// (a fresh foreign lock was respected for 10.5 s, one aged 60 s broken at
// once); the others are ours.
const (
	StaleAfter  = 10 * time.Second // age at which a lock directory is taken over
	MaxHold     = 2 * time.Second  // longest time between taking the lock and the rename
	DefaultWait = 15 * time.Second // deadline for taking all three locks
	MaxSize     = 32 << 20         // bytes; a larger file is refused unread
	attempts    = 3                // replacements before a file counts as contested
	spare       = 4 << 10          // bytes that change may add to a file without a copy of it
)

var (
	// ErrLocked means that another program kept one of the locks for longer
	// than the caller wanted to wait. Errors that are it are a [*LockedError].
	ErrLocked = errors.New("the lock is held by another program")

	// ErrForeignLock means that a file, or a directory with content, stands
	// where the lock directory belongs. It has to be removed by hand (or by
	// "teambridge doctor --fix"): it also keeps every Claude Code agent from
	// writing to this file.
	ErrForeignLock = errors.New("something that is not a lock stands in the lock's place")

	// ErrCompromised means that the lock was taken over by another program
	// while we held it. Unless [CompromisedError.Replaced] says otherwise,
	// nothing was written.
	ErrCompromised = errors.New("the lock was taken over while it was held")

	// ErrHeldTooLong means that the change took longer than [MaxHold], and was
	// given up with nothing written.
	ErrHeldTooLong = errors.New("the change took too long to keep the lock for it")

	// ErrReplaced means that the file had been replaced when something went
	// wrong: whether the change is in it is not known. It always comes with
	// another error. Without it, a Transform that fails has changed nothing.
	ErrReplaced = errors.New("the file had been replaced by then, and the change may be in it")

	// ErrClobbered means that another program that ignores the lock has written
	// the file three times running, before or after our change, and that the
	// change was not in the file when it was last looked at.
	ErrClobbered = errors.New("another program overwrites the file without taking its lock")

	// ErrGone means that the directory of the file no longer exists.
	ErrGone = errors.New("the directory is gone")

	// ErrTooLarge means that the file is, or would become, larger than
	// [MaxSize].
	ErrTooLarge = fmt.Errorf("the file is larger than %d MiB", MaxSize>>20)

	// ErrNotRegular means that the name belongs to a directory, a symbolic link
	// or another thing that is not a plain file.
	ErrNotRegular = errors.New("not a regular file")
)

// LockedError tells which lock could not be had. It is [ErrLocked].
type LockedError struct {
	Path   string        // the lock directory, or the flock file in the state directory
	Age    time.Duration // by its modification time; 0 where that means nothing
	Ours   bool          // another process of ours holds it, not a foreign program
	Waited time.Duration
}

func (e *LockedError) Error() string {
	if e.Ours {
		return fmt.Sprintf("another teambridge process held %s for the %s that was waited", e.Path, e.Waited.Round(time.Millisecond))
	}
	return fmt.Sprintf("lock directory %s, last touched %s ago by a Claude Code agent or another tool, was not released within %s",
		e.Path, e.Age.Round(time.Millisecond), e.Waited.Round(time.Millisecond))
}

// Is makes the error match [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// CompromisedError is [ErrCompromised] with what had happened by then.
type CompromisedError struct {
	Path string // the lock directory
	// Replaced is true when the file had been replaced before the lock was
	// lost, and did not read back as written. The error then is [ErrReplaced]
	// too.
	Replaced bool
}

func (e *CompromisedError) Error() string {
	if e.Replaced {
		return fmt.Sprintf("lock %s was taken over by another program after the file had been replaced; the change may or may not be in it", e.Path)
	}
	return fmt.Sprintf("lock %s was taken over by another program while it was held; nothing was written", e.Path)
}

// Is makes the error match [ErrCompromised], and [ErrReplaced] where it is that.
func (e *CompromisedError) Is(target error) bool {
	return target == ErrCompromised || e.Replaced && target == ErrReplaced
}

// Step names a point of a Transform, for [Options.Before].
type Step string

// The steps, in their order. A Transform that is given up leaves some out.
const (
	StepLock     Step = "lock"     // before the lock directory is made
	StepRead     Step = "read"     // before the file is read under the locks
	StepWrite    Step = "write"    // before the new content goes into a temporary file
	StepFence    Step = "fence"    // before the lock is looked at for the last time
	StepRename   Step = "rename"   // between that look and the rename
	StepReadBack Step = "readback" // before the file is read again
	StepUnlock   Step = "unlock"   // before the lock directory is removed
)

// Options says how a [Locker] locks. The zero value is usable.
type Options struct {
	// Dir holds the flock files, one for each file ever transformed, and what
	// stood in those files before they were changed the last time. It is made
	// (0700) when missing, must not be inside a team, and should be on the file
	// system of the files: then they can be exchanged. Empty: no flock; the lock
	// directory alone still excludes everybody.
	Dir string

	// Wait is the deadline for taking all locks; 0 means [DefaultWait].
	Wait time.Duration

	// Hold is how long the lock may be held before the file is replaced; 0 means
	// [MaxHold]. Only tests set it, which may run where a process is not scheduled,
	// or a disk not written, for longer.
	Hold time.Duration

	// Before, if not nil, is called before each step, by the goroutine that
	// takes it. Tests of crashes stop or kill the process in it.
	Before func(Step)
}

// Locker takes the locks. All goroutines of a process that change the same
// files should share one. It holds no resources between calls.
type Locker struct {
	opts Options

	mu    sync.Mutex
	files map[string]*turn
}

// turn is the in-process mutex of one file: a channel, since waiting for it
// ends with the context.
type turn struct {
	ch      chan struct{}
	waiting int
}

// New returns a Locker. Nothing is touched before the first Transform.
func New(opts Options) *Locker {
	if opts.Wait == 0 {
		opts.Wait = DefaultWait
	}
	if opts.Hold == 0 {
		opts.Hold = MaxHold
	}
	if opts.Before == nil {
		opts.Before = func(Step) {}
	}
	return &Locker{opts: opts, files: map[string]*turn{}}
}

// File names a file to change.
type File struct {
	// Dir is the directory the file is in. It must have been opened by its
	// real path: the flock's name is made from it. An open directory that has
	// been deleted stays deleted, even when another of its name is made.
	Dir *os.Root

	// Name is the file's name in Dir, without any separator.
	Name string

	// Guard, if not nil, is asked under the lock before the file is read, right
	// before the rename, and after the read-back. Its error ends the Transform
	// with nothing written; after the rename, with a file that did not exist
	// before removed again, and one that did left as it is then ([ErrReplaced]).
	Guard func() error

	// Seen, if not nil, is told what stands in the file at the end of a Transform
	// that did not fail, once: what was read back or, where nothing was changed,
	// what change was given; nil where there is no file. The reading was between
	// began and ended, while the lock was held. It is called under the lock, and
	// must not change content.
	Seen func(content []byte, began, ended time.Time)
}

// Path returns the file's path, for messages.
func (f File) Path() string { return filepath.Join(f.Dir.Name(), f.Name) }

// LockName returns the name of the lock directory of a file.
func LockName(name string) string { return name + lockSuffix }

const lockSuffix = ".lock"

// Transform replaces the content of f by what change makes of it, as the
// package comment describes.
//
// change gets the present content (nil where the file does not exist, which is
// not the same as empty) and returns the new one; nil leaves the file as it is,
// as does content equal to the old. It may use the memory of the old content for
// a longer one, as append does, but not change it in place. It runs while the lock is held, so it has
// to be quick, and is called again, up to three times more, when the file does
// not read back as written: where it then finds its change in the file, and
// leaves it as it is, that is success. An error of change is returned as it is,
// and nothing is written.
//
// A file that does not exist is created with mode 0600. The errors are the
// sentinels above, fs.ErrPermission and what the file system says (disk full),
// each wrapped with the path; after any of them that is not [ErrClobbered] or
// [ErrReplaced] too the file is as it was.
func (l *Locker) Transform(ctx context.Context, f File, change func(old []byte) ([]byte, error)) (err error) {
	if f.Name == "" || f.Name != filepath.Base(f.Name) || f.Name == "." || f.Name == ".." {
		return fmt.Errorf("lockedfile: %q is not a file name", f.Name)
	}
	start := time.Now()
	wait, cancel := context.WithTimeoutCause(ctx, l.opts.Wait, errWaited)
	defer cancel()

	unlock, err := l.turn(wait, f, start)
	if err != nil {
		return err
	}
	defer unlock()
	unflock, err := l.flock(wait, f, start)
	if err != nil {
		return err
	}
	defer unflock()
	l.opts.Before(StepLock)
	lock, err := lockDir(wait, f, start)
	if err != nil {
		return err
	}
	was, err := l.asides(f)
	if err != nil {
		return errors.Join(err, lock.release())
	}
	defer was.close()
	replaced := false
	defer func() {
		l.opts.Before(StepUnlock)
		uerr := lock.release()
		l.leaveFree(f, time.Since(lock.since))
		if uerr != nil && err == nil {
			err = unknown(uerr, replaced)
		}
	}()
	replaced, err = l.transform(f, lock, was, change)
	return err
}

// errWaited is the cause of the deadline that is ours and not the caller's.
var errWaited = errors.New("lock deadline")

// transform is the part of Transform that runs under all locks. It also reports
// whether it has replaced the file.
func (l *Locker) transform(f File, lock *dirLock, was *asides, change func([]byte) ([]byte, error)) (replaced bool, err error) {
	if err := removeTemps(f); err != nil {
		return false, err
	}
	var lost error
	for n := 0; ; n++ {
		l.opts.Before(StepRead)
		if err := f.guard(); err != nil {
			return replaced, err
		}
		began := time.Now()
		old, info, err := readFile(f)
		ended := time.Now()
		if err != nil {
			return replaced, unknown(err, replaced)
		}
		content, err := change(old)
		if err != nil {
			return replaced, err
		}
		if content == nil || old != nil && bytes.Equal(old, content) {
			f.seen(old, began, ended)
			return replaced, nil
		}
		if n == attempts {
			if lost != nil {
				return replaced, lost
			}
			return true, fmt.Errorf("write %s: %w (%d times)", f.Path(), ErrClobbered, attempts)
		}
		if len(content) > MaxSize {
			return replaced, fmt.Errorf("write %s: %w (%d bytes)", f.Path(), ErrTooLarge, len(content))
		}
		l.opts.Before(StepWrite)
		err = replace(f, info, content, was, func() error {
			l.opts.Before(StepFence)
			if err := lock.check(replaced); err != nil {
				// A deletion of the whole directory takes the lock first: that
				// is the better answer.
				if gerr := f.guard(); gerr != nil {
					return gerr
				}
				return err
			}
			if held := time.Since(lock.since); held > l.opts.Hold {
				return fmt.Errorf("write %s: %w (%s)", f.Path(), ErrHeldTooLong, held.Round(time.Millisecond))
			}
			if err := f.guard(); err != nil {
				return err
			}
			if !unchanged(f, info) {
				return errChanged
			}
			l.opts.Before(StepRename)
			return nil
		})
		if lost = nil; err != nil {
			if errors.Is(err, errChanged) {
				continue
			}
			err = f.wrap("write", err)
			if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrGone) {
				// The temporary file was taken away, with all the directory as
				// a rule: the next look tells.
				lost = err
				continue
			}
			return replaced, err
		}
		replaced = true
		l.opts.Before(StepReadBack)
		began = time.Now()
		same, err := holds(f, content)
		ended = time.Now()
		for err == nil && same && was.await() {
			began = time.Now()
			same, err = holds(f, content)
			ended = time.Now()
		}
		if gerr := f.guard(); gerr != nil {
			// The directory is being deleted around us: a file that we made in
			// it would keep it alive.
			if info == nil {
				return true, errors.Join(gerr, ignoreNotExist(f.Dir.Remove(f.Name)))
			}
			return true, unknown(gerr, true)
		}
		if err != nil {
			return true, unknown(fmt.Errorf("read back: %w", err), true)
		}
		if same {
			f.seen(content, began, ended)
			return true, nil
		}
	}
}

// errChanged means that the file changed under the lock, between when it was
// read and the rename that would have undone that.
var errChanged = errors.New("the file was changed without its lock")

// unchanged reports whether f still is what it was when it was read; nil means
// that there was none.
func unchanged(f File, was fs.FileInfo) bool {
	now, err := f.Dir.Lstat(f.Name)
	if was == nil || err != nil {
		return was == nil && errors.Is(err, fs.ErrNotExist)
	}
	return sameFile(was, now)
}

// sameFile reports whether a file is the one it was, with the content it had.
func sameFile(was, now fs.FileInfo) bool {
	return os.SameFile(was, now) && was.Size() == now.Size() && was.ModTime().Equal(now.ModTime())
}

// unknown makes err an [ErrReplaced] too where the file has been replaced.
func unknown(err error, replaced bool) error {
	if !replaced {
		return err
	}
	return fmt.Errorf("%w; %w", err, ErrReplaced)
}

func (f File) guard() error {
	if f.Guard == nil {
		return nil
	}
	return f.Guard()
}

func (f File) seen(content []byte, began, ended time.Time) {
	if f.Seen != nil {
		f.Seen(content, began, ended)
	}
}

// wrap gives err the path, and makes it ErrGone where the directory has been
// deleted: whatever failed then failed because of that.
func (f File) wrap(op string, err error) error {
	if errors.Is(err, fs.ErrNotExist) && gone(f.Dir) {
		return fmt.Errorf("%s %s: %w", op, f.Path(), ErrGone)
	}
	return fmt.Errorf("%s %s: %w", op, f.Path(), err)
}

// wrapDir is wrap for what needs nothing but the directory: there an error that
// something does not exist means the directory, also in the instant in which
// its name can still be looked up.
func (f File) wrapDir(op string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s %s: %w", op, f.Path(), ErrGone)
	}
	return f.wrap(op, err)
}

// gone reports whether dir has been deleted, or replaced by another directory
// of its name, since it was opened.
func gone(dir *os.Root) bool {
	now, err := os.Stat(dir.Name())
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	was, err := dir.Stat(".")
	return err != nil || !os.SameFile(was, now)
}

// readFile returns the content of f, and what the directory says of it; nil,
// nil where it does not exist. Content is never nil for a file that exists.
func readFile(f File) ([]byte, fs.FileInfo, error) {
	r, info, err := open(f)
	if r == nil {
		return nil, nil, err
	}
	defer r.Close()
	// Room for what is most often added, which also shows the end of the file
	// without growing.
	content := make([]byte, 0, info.Size()+spare)
	for {
		n, err := r.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
		switch {
		case len(content) > MaxSize:
			return nil, nil, fmt.Errorf("read %s: %w", f.Path(), ErrTooLarge)
		case err == io.EOF:
			return content, info, nil
		case err != nil:
			return nil, nil, fmt.Errorf("read %s: %w", f.Path(), err)
		}
		if len(content) == cap(content) {
			content = slices.Grow(content, 64<<10)
		}
	}
}

// holds reports whether f has exactly this content. It reads in pieces: a
// second copy of a large file costs more than the reading.
func holds(f File, content []byte) (bool, error) {
	r, _, err := open(f)
	if r == nil {
		return false, err
	}
	defer r.Close()
	buf := make([]byte, min(64<<10, len(content)+1))
	for {
		n, err := r.Read(buf)
		if !bytes.HasPrefix(content, buf[:n]) {
			return false, nil
		}
		content = content[n:]
		if err == io.EOF {
			return len(content) == 0, nil
		}
		if err != nil {
			return false, fmt.Errorf("read %s: %w", f.Path(), err)
		}
	}
}

// open opens f for reading, and says what the directory says of it; nil, nil,
// nil where it does not exist.
func open(f File) (*os.File, fs.FileInfo, error) {
	info, err := f.Dir.Lstat(f.Name)
	if errors.Is(err, fs.ErrNotExist) {
		if gone(f.Dir) {
			return nil, nil, f.wrap("read", err)
		}
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, f.wrap("read", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("read %s: %w (%s)", f.Path(), ErrNotRegular, info.Mode().Type())
	}
	if info.Size() > MaxSize {
		return nil, nil, fmt.Errorf("read %s: %w (%d bytes)", f.Path(), ErrTooLarge, info.Size())
	}
	r, err := f.Dir.Open(f.Name)
	if errors.Is(err, fs.ErrNotExist) && !gone(f.Dir) {
		return nil, nil, nil // deleted since it was looked at
	}
	if err != nil {
		return nil, nil, f.wrap("read", err)
	}
	return r, info, nil
}

// removeTemps removes the temporary files that a process of ours left behind
// when it was killed. All locks are held, so no living one is at work.
func removeTemps(f File) error {
	d, err := f.Dir.Open(".")
	if err != nil {
		return f.wrapDir("read the directory of", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return f.wrapDir("read the directory of", err)
	}
	for _, name := range names {
		if of, ok := TempOf(name); !ok || of != f.Name {
			continue
		}
		if err := ignoreNotExist(f.Dir.Remove(name)); err != nil {
			return f.wrap("remove the left-over temporary file of", err)
		}
	}
	return nil
}

// TempOf returns the name of the file that name is a temporary file of ours
// for: a dot, the file's name, and a number behind it. One that is still there
// when no process of ours runs was left by one that was killed.
func TempOf(name string) (file string, ok bool) {
	of, dot := strings.CutPrefix(name, ".")
	file = strings.TrimRight(of, "0123456789")
	return file, dot && file != of && strings.HasSuffix(file, ".json")
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

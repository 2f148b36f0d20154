// Package lockedfile changes a file that other programs change too, under the lock
// that those programs take. [Locker.Transform] is the one entry point.
//
// # The locks
//
// Three locks are taken in turn, with one deadline for all of them:
//
//  1. a mutex in this process: the race detector sees it, and it costs no system call;
//  2. flock(2) on a file in our state directory, so that only one of our processes
//     contends for the third lock. The kernel frees it when the holder dies. The next of
//     us then leaves the third lock free for twice as long as the last one held it,
//     since agents try only a few times;
//  3. the directory NAME.lock next to the file, made with mkdir and removed with rmdir.
//     It is the lock of the npm package proper-lockfile, and the one that Claude Code
//     takes. Only this one keeps other programs out.
//
// A lock directory whose modification time is over 10 s old is taken over, as those
// programs do; one whose time is in the future, when it has not changed for 10 s by our
// own monotonic clock. A regular file in its place, or a directory that is not empty,
// blocks those programs for good: that is [ErrForeignLock], and nothing here removes it.
//
// # The order
//
// The file is read, changed, and its new content flushed to disk before the lock
// directory is made. Under the lock, the file is compared with what was read, exchanged
// with the new content, and read back: a few system calls. Claude Code before 2.1.257
// delivers its messages again at each poll while somebody holds the lock, and gives up
// taking it after 0.6 s. Only if the file has changed in between is it read, changed and
// flushed once more under the lock. Where files cannot be exchanged (the state directory
// is on another file system, that one cannot do it, as HFS+, or the system is neither Linux
// nor macOS), the new content is always written under the lock, to a temporary file next to the file, which is then renamed.
//
// # What is promised
//
// A reader of the file sees the old or the new content, never a part. The exchange shows
// whether the file still was what had been read. The file is read back under the same
// lock and compared byte for byte. If another program that ignores the lock has written
// the file, before or after, the change is made again on what is there now, three times
// at most.
//
// The lock is held for 400 ms at most, whatever the disk does: a change that takes longer
// is given up unwritten. Only the replacement itself, once begun, is waited for. Right
// before the rename, and again before the rmdir, the lock directory must be the one we
// made, its time equal to the nanosecond. A process that was stopped for longer than 10 s
// finds another's lock and writes and removes nothing. A process that is killed leaves its
// lock directory, which others take over when it is 10 s old.
//
// # What programs that watch the directory see
//
// On Linux, inotify reports an exchange after the creation of NAME.lock and before its
// removal, as two events whose cookies match nothing, since both partners are outside of
// the directory:
//
//	MOVED_TO   NAME    the new content came
//	MOVED_FROM NAME    the old content went
//
// So the last event about the file is MOVED_FROM, although the file is there: fsnotify
// reports a Rename, other libraries a removal. A program that watches should take an event
// as a reason to look at the file, and should watch the directory: a watch on the file
// stays with the old content. A file that did not exist comes with MOVED_TO alone, as
// does each write of Claude Code, which renames NAME.tmp.XXXX.
//
// # What is not promised
//
// A process that is stopped for over 10 s between its last look at the lock and the
// rename writes without the lock. Where files can be exchanged, it finds what was written
// in the meantime and puts that back. Elsewhere that is lost, and a file whose directory
// is being deleted comes back and can keep the directory.
//
// The content is flushed to disk before the rename, the directory is not: after a power
// cut the file can have its old content. Mode and owner of the old file are kept; access
// control lists and extended attributes are not.
package lockedfile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Durations and limits. StaleAfter is as in proper-lockfile and Claude Code; the
// others are ours.
const (
	StaleAfter  = 10 * time.Second       // age at which a lock directory is taken over
	MaxHold     = 400 * time.Millisecond // longest time between taking the lock and the rename
	DefaultWait = 15 * time.Second       // deadline for taking all three locks
	MaxSize     = 32 << 20               // bytes; a larger file is refused unread
	Spare       = 4 << 10                // bytes at the end of the old content that change may overwrite, and room after it
	attempts    = 3                      // replacements before a file counts as contested
)

var (
	// ErrLocked means that another program kept one of the locks for longer
	// than the caller wanted to wait. Errors that are it are a [*LockedError].
	ErrLocked = errors.New("the lock is held by another program")

	// ErrForeignLock means that a file, or a directory that is not empty, is in the
	// place of the lock directory. It keeps every Claude Code agent from writing the
	// file too, until it is removed by hand or by "teambridge doctor --fix".
	ErrForeignLock = errors.New("something that is not a lock stands in the lock's place")

	// ErrCompromised means that another program took the lock over while we held
	// it. Nothing was written, unless the error is [ErrReplaced] too.
	ErrCompromised = errors.New("the lock was taken over by another program while it was held")

	// ErrHeldTooLong means that the lock was released after [Options.Hold] with nothing
	// written: the change had to be made under the lock, and took too long.
	ErrHeldTooLong = errors.New("writing took too long to keep the lock for it")

	// ErrReplaced comes with another error: the file had been replaced by then, and it
	// is not known whether the change is in it. A Transform that fails without it has
	// changed nothing.
	ErrReplaced = errors.New("the file had been replaced by then, and the change may be in it")

	// ErrClobbered means that another program that ignores the lock has written the
	// file three times in a row, and that the change was not in it at the last look.
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
	Path   string        // the lock directory, or what was to be locked with flock
	Age    time.Duration // by its modification time; 0 where that means nothing
	Ours   bool          // another process of ours holds it, not a foreign program
	PID    int           // of that process, from [HoldDir]; 0 if it is not known
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

// Step names a point of a Transform, for [Options.Before].
type Step string

// The steps, in their order. A Transform that is given up leaves some out; one that
// finds another file under the lock does StepRead to StepFlush there once more.
const (
	StepRead     Step = "read"     // before the file is read
	StepWrite    Step = "write"    // before the temporary file is made for the new content
	StepFlush    Step = "flush"    // before the temporary file is flushed to disk
	StepLock     Step = "lock"     // before the lock directory is made
	StepFence    Step = "fence"    // before the lock is looked at for the last time
	StepRename   Step = "rename"   // between that look and the rename
	StepReadBack Step = "readback" // before the file is read again
	StepUnlock   Step = "unlock"   // before the lock directory is removed
)

// Options says how a [Locker] locks. The zero value is usable.
type Options struct {
	// Dir holds a flock file for each file ever transformed, and the old content of
	// files that were changed lately. It is made (0700) if it is missing, must not be in
	// a team, and should be on the file system of the files, so that they can be
	// exchanged. If it is empty there is no flock; the lock directory still excludes
	// everybody.
	Dir string

	// Wait is the deadline for taking all locks; 0 means [DefaultWait].
	Wait time.Duration

	// Hold is how long the lock directory is held at most before the file is
	// replaced; 0 means [MaxHold].
	Hold time.Duration

	// Before, if not nil, is called before each step, for tests of crashes.
	Before func(Step)

	refused error // for tests: what the file system says to an exchange; nil: its own answer
}

// Locker takes the locks. The zero value is what [New] returns for zero Options. A process should have one Locker. It holds no
// resources between calls.
type Locker struct {
	opts Options

	mu    sync.Mutex
	files map[string]*fileMutex
}

// fileMutex is the in-process mutex of one file: a channel, since waiting for it
// ends with the context.
type fileMutex struct {
	ch      chan struct{}
	waiting int
}

// New returns a Locker. Nothing is touched before the first Transform.
func New(opts Options) *Locker {
	return &Locker{opts: opts}
}

// before calls [Options.Before].
func (l *Locker) before(s Step) {
	if l.opts.Before != nil {
		l.opts.Before(s)
	}
}

// File names a file to change.
type File struct {
	// Dir is the directory of the file, opened by its real path, of which the flock's
	// name is made. If it is deleted, it stays deleted, even if another is made.
	Dir *os.Root

	// Name is the file's name in Dir, without any separator.
	Name string

	// Guard, if not nil, is called before the file is read, right before the rename and
	// after the read-back. Its error ends the Transform with nothing written. After the
	// rename, a file that did not exist before is removed again; another is left as it
	// is ([ErrReplaced]).
	Guard func() error

	// Commit, if not nil, is called once if change wants to change the file, or if that
	// is not known because the file is being written: before the lock directory is made,
	// with our own locks held. It stores what has to be on disk before the file changes.
	// Its error is returned as it is, and nothing is written. If Transform then fails
	// without [ErrReplaced], or the last call of change leaves the file as it is, the
	// caller has to undo it.
	Commit func() error

	// Seen, if not nil, is called once at the end of a Transform that did not fail, with
	// the content of the file: what was read back or, if nothing was changed, what change
	// was given; nil if there is no file. It was read between began and ended; if it was
	// changed, under the lock. Seen must be quick, and must not change content.
	Seen func(content []byte, began, ended time.Time)
}

// Path returns the file's path, for messages.
func (f File) Path() string { return filepath.Join(f.Dir.Name(), f.Name) }

// LockName returns the name of the lock directory of a file.
func LockName(name string) string { return name + lockSuffix }

const lockSuffix = ".lock"

// Transform replaces the content of f by what change makes of it, as the package comment
// describes.
//
// change gets the content (nil if the file does not exist) and returns the new one. If
// that is nil or equal to the old, the file stays as it is. So that appending to a large
// file need not copy it, the new content may share the memory of the old, which has room
// for [Spare] more bytes, and may overwrite its last [Spare] bytes.
//
// change must be quick and have no effect but its result. It is called before the lock is
// taken; if the file has changed by then, again under the lock; and up to three times more
// if the file does not read back as written: if it then leaves the file as it is, because
// it finds its change there, that is success. Its error under the lock is returned as it
// is, and nothing is written.
//
// A file that does not exist is created with mode 0600. The errors are the sentinels
// above, fs.ErrPermission and those of the file system, with the path. After an error that
// is neither [ErrClobbered] nor [ErrReplaced] the file is as it was.
func (l *Locker) Transform(ctx context.Context, f File, change func(old []byte) ([]byte, error)) (err error) {
	if f.Name == "" || f.Name != filepath.Base(f.Name) || f.Name == "." || f.Name == ".." {
		return fmt.Errorf("lockedfile: %q is not a file name", f.Name)
	}
	start := time.Now()
	wait, cancel := context.WithTimeoutCause(ctx, cmp.Or(l.opts.Wait, DefaultWait), errWaited)
	defer cancel()

	unlock, err := l.lockMutex(wait, f, start)
	if err != nil {
		return err
	}
	defer unlock()
	unflock, err := l.flock(wait, f, start)
	if err != nil {
		return err
	}
	defer unflock()
	displaced, err := l.displaced(f)
	if err != nil {
		return err
	}
	defer displaced.close()

	t := &transform{file: f, change: change, displaced: displaced, before: l.before}
	d, done, err := t.ahead()
	if done || err != nil {
		return err
	}
	l.before(StepLock)
	lock, err := lockDir(wait, f, start, cmp.Or(l.opts.Hold, MaxHold))
	if err != nil {
		if derr := d.discard(); derr != nil {
			err = errors.Join(err, derr)
		}
		return err
	}
	defer func() {
		l.before(StepUnlock)
		uerr := lock.release()
		l.leaveFree(f, time.Since(lock.since))
		if uerr != nil && err == nil {
			err = unknown(uerr, lock.replaced)
		}
	}()
	return t.locked(lock, d)
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

// wrap gives err the path, and makes it ErrGone if the directory has been deleted.
func (f File) wrap(op string, err error) error {
	if errors.Is(err, fs.ErrNotExist) && gone(f.Dir) {
		return fmt.Errorf("%s %s: %w", op, f.Path(), ErrGone)
	}
	return fmt.Errorf("%s %s: %w", op, f.Path(), err)
}

// wrapDir is wrap for operations that need only the directory: if something does not
// exist, that is the directory, even if its name can still be looked up.
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

// readFile returns the content of f, and its info from right before; nil, nil if it does not
// exist. Content is never nil for a file that exists.
func readFile(f File) ([]byte, fs.FileInfo, error) {
	content, info, err := read(f.Dir, f.Name)
	if errors.Is(err, fs.ErrNotExist) && !gone(f.Dir) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, f.wrap("read", err)
	}
	return content, info, nil
}

// holds reports whether f has exactly this content. It reads in pieces: a
// second copy of a large file costs more than the reading.
func holds(f File, content ...[]byte) (bool, error) {
	r, _, err := open(f.Dir, f.Name)
	if errors.Is(err, fs.ErrNotExist) && !gone(f.Dir) {
		return false, nil
	}
	if err != nil {
		return false, f.wrap("read", err)
	}
	defer r.Close()
	buf := make([]byte, 64<<10)
	for _, part := range content {
		for len(part) > 0 {
			n, err := io.ReadFull(r, buf[:min(len(buf), len(part))])
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return false, fmt.Errorf("read %s: %w", f.Path(), err)
			}
			if err != nil || !bytes.Equal(part[:n], buf[:n]) {
				return false, nil
			}
			part = part[n:]
		}
	}
	n, err := r.Read(buf[:1])
	if err != nil && err != io.EOF {
		return false, fmt.Errorf("read %s: %w", f.Path(), err)
	}
	return n == 0, nil
}

// removeTemps removes the temporary files of our processes that were killed. All locks
// are held, so no other process is using one.
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

// TempOf returns the name of the file whose temporary file is called name: a dot, the
// file's name and a number. A process that is killed leaves it.
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

// Package lockedfile changes a file that other programs change, too, under the lock that those programs take.
// [Locker.Transform] is the main entry point.
//
// # The locks
//
// Transform takes three locks in turn, with one deadline for all of them:
//
//  1. a mutex in this process: the race detector sees it, and it costs no system call;
//  2. flock(2) on a file in our state directory, so that only one of our processes
//     contends for the third lock. The kernel frees it when the holder dies. The next of
//     our processes then leaves the third lock free for twice as long as the last one held
//     it, because agents try only a few times;
//  3. the directory NAME.lock next to the file, made with mkdir and removed with rmdir.
//     It is the lock of the npm package proper-lockfile, which Claude Code takes. Only
//     this one excludes other programs.
//
// A lock directory whose modification time is over 10 s old is taken over, as those programs do. One whose
// time is in the future is taken over when it has not changed for 10 s by our own monotonic clock. A regular
// file in its place, or a directory that is not empty, blocks those programs for good. Then the error is
// [ErrForeignLock], and this package does not remove it.
//
// # The order
//
// The file is read and changed, and its new content is flushed to disk, before the lock directory is made.
// Under the lock, only a few system calls remain: the file is compared with the content that was read,
// exchanged with the new content, and read back. The lock must be short: while it is held, Claude Code before
// 2.1.257 delivers its messages again at each poll, and gives up after 0.6 s. The file is read, changed and
// flushed once more under the lock only if it has changed in between. Some files cannot be exchanged, because
// the state directory is on another file system, the file system does not support it (HFS+), or the system is
// neither Linux nor macOS. There, the new content is always written under the lock, to a temporary file next
// to the file, which is then renamed.
//
// # What is promised
//
// A reader of the file sees the old or the new content, never a part. The exchange shows whether the file
// still had the content that was read. The file is read back under the same lock and compared byte for byte.
// If another program that ignores the lock has written the file, before or after, the change is made again on
// the current content, at most three times.
//
// The lock is held for at most 400 ms, whatever the disk does: a change that takes longer is given up
// unwritten. Only the replacement itself, once begun, is completed. Right before the rename, and again before
// the rmdir, the lock directory must be the one that we made, with the same time to the nanosecond. A process
// that was stopped for longer than 10 s finds another program's lock, and neither writes nor removes
// anything. A killed process leaves its lock directory behind; others take it over once it is 10 s old.
//
// # What programs that watch the directory see
//
// On Linux, inotify reports an exchange between the creation of NAME.lock and its removal. It reports two
// events with unmatched cookies, because the other file is outside of the directory:
//
//	MOVED_TO   NAME    the new content came
//	MOVED_FROM NAME    the old content went
//
// So the last event about the file is MOVED_FROM, although the file exists: fsnotify reports a Rename, other
// libraries a removal. A watching program should treat an event as a reason to check the file, and should
// watch the directory: a watch on the file stays with the old content. A new file causes only MOVED_TO, and
// so does each write of Claude Code, which renames NAME.tmp.XXXX.
//
// # What is not promised
//
// If a process is stopped for over 10 s between its last check of the lock and the rename, it writes without
// the lock. Where files can be exchanged, it notices what was written meanwhile, and puts that back.
// Elsewhere, the other content is lost. If the directory is being deleted, the file comes back, and can
// prevent the deletion.
//
// The content is flushed to disk before the rename, but the directory is not: after a power cut the file can
// have its old content. Mode and owner of the old file are kept; access control lists and extended attributes
// are not.
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

// Durations and limits. StaleAfter is the value of proper-lockfile and Claude Code; the others are our own.
const (
	StaleAfter  = 10 * time.Second       // the age at which a lock directory is taken over
	MaxHold     = 400 * time.Millisecond // the longest time from the lock to the rename
	DefaultWait = 15 * time.Second       // the deadline for all three locks
	MaxSize     = 32 << 20               // bytes; a larger file is refused unread
	Spare       = 4 << 10                // bytes at the end of the old content that change may overwrite, and spare bytes after it
	attempts    = 3                      // replacements before the file counts as contested
)

var (
	// ErrLocked means that another program kept one of the locks for longer than the caller wanted to wait.
	// The error is always a [*LockedError].
	ErrLocked = errors.New("the lock is held by another program")

	// ErrForeignLock means that a file, or a directory that is not empty, is in the place of the lock
	// directory. It also prevents every Claude Code agent from writing the file, until it is removed by hand
	// or by "teambridge doctor --fix".
	ErrForeignLock = errors.New("something that is not a lock is in the lock's place")

	// ErrCompromised means that another program took the lock over while we held it. Nothing was written,
	// unless the error is also [ErrReplaced].
	ErrCompromised = errors.New("the lock was taken over by another program while it was held")

	// ErrHeldTooLong means that the lock was released after [Options.Hold] without a write: the change had to
	// be made under the lock, and took too long.
	ErrHeldTooLong = errors.New("the write took too long, and the lock was released without it")

	// ErrReplaced accompanies another error: the file was already replaced, and it is unknown whether the
	// change is in it. A Transform that fails without ErrReplaced has changed nothing.
	ErrReplaced = errors.New("the file had been replaced by then, and the change may be in it")

	// ErrClobbered means that another program, which ignores the lock, has written the file three times in a
	// row, and that the change was missing at the last check.
	ErrClobbered = errors.New("another program overwrites the file without taking its lock")

	// ErrGone means that the directory of the file no longer exists.
	ErrGone = errors.New("the directory is gone")

	// ErrTooLarge means that the file is, or would become, larger than [MaxSize].
	ErrTooLarge = fmt.Errorf("the file is larger than %d MiB", MaxSize>>20)

	// ErrNotRegular means that the name belongs to a directory, a symbolic link, or another file that is not
	// regular.
	ErrNotRegular = errors.New("not a regular file")
)

// LockedError describes a lock that could not be taken. It is an [ErrLocked].
type LockedError struct {
	Path   string        // the lock directory, or the file or directory of a flock
	Age    time.Duration // by its modification time; 0 for a flock
	Ours   bool          // another process of ours holds it, not another program
	PID    int           // the holder, from [HoldDir] or [HoldName]; 0 if unknown
	Waited time.Duration
}

func (e *LockedError) Error() string {
	if e.Ours {
		return fmt.Sprintf("another teambridge process held %s for all of the %s that this one waited", e.Path, e.Waited.Round(time.Millisecond))
	}
	return fmt.Sprintf("lock directory %s, last touched %s ago by a Claude Code agent or another tool, was not released within %s",
		e.Path, e.Age.Round(time.Millisecond), e.Waited.Round(time.Millisecond))
}

// Is makes the error match [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// Step names a point of a Transform, for [Options.Before].
type Step string

// The steps, in order. A Transform that is given up skips some. If the file has changed under the lock,
// StepRead to StepFlush come once more there.
const (
	StepRead     Step = "read"     // before the file is read
	StepWrite    Step = "write"    // before the temporary file is made for the new content
	StepFlush    Step = "flush"    // before the temporary file is flushed to disk
	StepLock     Step = "lock"     // before the lock directory is made
	StepFence    Step = "fence"    // before the last check of the lock
	StepRename   Step = "rename"   // between that check and the rename
	StepReadBack Step = "readback" // before the file is read again
	StepUnlock   Step = "unlock"   // before the lock directory is removed
)

// Options says how a [Locker] locks. The zero value is usable.
type Options struct {
	// Dir has a flock file for each file ever transformed, and the old content of recently changed files. It
	// is made (0700) if missing. It must not be in a team, and should be on the file system of the files, so
	// that they can be exchanged. If Dir is empty, there is no flock; the lock directory still excludes all
	// other processes.
	Dir string

	// Wait is the deadline for taking all locks; 0 means [DefaultWait].
	Wait time.Duration

	// Hold limits how long the lock directory is held before the file is replaced; 0 means [MaxHold].
	Hold time.Duration

	// Before, if not nil, is called before each step, for tests of crashes.
	Before func(Step)

	refused error // for tests: the error of an exchange; nil to try it
}

// Locker takes the locks. The zero value equals [New] with zero Options. A process should have one Locker. A
// Locker holds no resources between calls.
type Locker struct {
	opts Options

	mu    sync.Mutex
	files map[string]*fileMutex
}

// fileMutex is the in-process mutex of one file. It is a channel, so that a wait can end with the context.
type fileMutex struct {
	ch      chan struct{}
	waiting int
}

// New returns a Locker. It touches no file before the first Transform.
func New(opts Options) *Locker {
	return &Locker{opts: opts}
}

// before calls [Options.Before].
func (l *Locker) before(s Step) {
	if l.opts.Before != nil {
		l.opts.Before(s)
	}
}

// File is a file to change.
type File struct {
	// Dir is the directory of the file, opened by its real path, from which the flock's name is derived. Dir
	// stays this directory, even if it is deleted and another one takes its place.
	Dir *os.Root

	// Name is the file's name in Dir, without a separator.
	Name string

	// Guard, if not nil, is called before the file is read, right before the rename, and after the read-back.
	// If it fails, the Transform ends with its error and without a write. After the rename, a file that did
	// not exist before is removed again; another file keeps the change ([ErrReplaced]).
	Guard func() error

	// Commit, if not nil, is called once, before the lock directory is made and with our own locks held. It
	// is called if change wants to change the file, or if that is unknown because the file is being written.
	// It must store what has to be on disk before the file changes. If it fails, Transform returns its error
	// unchanged and writes nothing. If Transform then fails without [ErrReplaced], or the last call of change
	// leaves the file unchanged, the caller must undo the effect of Commit.
	Commit func() error

	// Seen, if not nil, is called once at the end of a successful Transform, with the content of the file:
	// the content that was read back or, if nothing was changed, the input of change; nil if the file does
	// not exist. The content was read between began and ended; if it was changed, under the lock. Seen must
	// be quick, and must not change content.
	Seen func(content []byte, began, ended time.Time)
}

// Path returns the file's path, for messages.
func (f File) Path() string { return filepath.Join(f.Dir.Name(), f.Name) }

// LockName returns the name of the lock directory of a file.
func LockName(name string) string { return name + lockSuffix }

const lockSuffix = ".lock"

// Transform replaces the content of f by the result of change, as the package comment describes.
//
// change gets the content (nil if the file does not exist) and returns the new content. If that is nil or
// equal to the old content, the file stays unchanged. So that an append to a large file need not copy it, the
// new content may share the memory of the old one. The old content has room for [Spare] more bytes, and
// change may overwrite its last [Spare] bytes.
//
// change must be quick, and have no effect but its result. It is called before the lock is taken. If the file
// has changed since, it is called again under the lock. If the file does not read back as written, it is
// called up to three times more; if it then leaves the file unchanged, because its change is there, the
// Transform succeeds. If change fails under the lock, Transform returns its error unchanged and writes
// nothing.
//
// A file that does not exist is created with mode 0600. The errors are the sentinels above, fs.ErrPermission
// and those of the file system, with the path. After an error that is neither [ErrClobbered] nor
// [ErrReplaced], the file is unchanged.
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

// wrap adds the path to err. If the directory was deleted, the error is ErrGone.
func (f File) wrap(op string, err error) error {
	if errors.Is(err, fs.ErrNotExist) && gone(f.Dir) {
		return fmt.Errorf("%s %s: %w", op, f.Path(), ErrGone)
	}
	return fmt.Errorf("%s %s: %w", op, f.Path(), err)
}

// wrapDir is wrap for operations that need only the directory: if anything is missing, it is the directory,
// even if its name can still be looked up.
func (f File) wrapDir(op string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s %s: %w", op, f.Path(), ErrGone)
	}
	return f.wrap(op, err)
}

// gone reports whether dir was deleted, or replaced by another directory of its name, since it was opened.
func gone(dir *os.Root) bool {
	now, err := os.Stat(dir.Name())
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	was, err := dir.Stat(".")
	return err != nil || !os.SameFile(was, now)
}

// readFile returns the content of f, with its info from right before the read; nil, nil if f does not exist.
// If f exists, the content is not nil.
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

// holds reports whether f has exactly this content. It reads in pieces, because a second copy of a large file
// costs more than the read.
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

// removeTemps removes the temporary files of our killed processes. The caller holds all locks, so no other
// process is using one.
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

// TempOf returns the name of the file to which a temporary file belongs. The name of a temporary file is a
// dot, the file's name, and a number. A killed process leaves it behind.
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

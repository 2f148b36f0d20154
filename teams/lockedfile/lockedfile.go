// Package lockedfile changes a file that other programs change too, under the
// lock those programs take, so that nobody's change is lost.
//
// [Locker.Transform] is the one entry point. It owns read, change, lock, write
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
// # The order
//
// The file is read, changed, and its new content flushed to disk before the lock
// directory is made. Under it the file is compared with what was read, exchanged with
// the new content, and read back: a few system calls. Claude Code before 2.1.257
// delivers its messages again at each poll while somebody holds the lock, and gives up
// taking it after 0.6 s. Only when the file was changed in between is it read, changed
// and flushed once more while the lock is held. Where files cannot be exchanged (the
// state directory is on another file system, or the system is not Linux) the new content
// is always written under the lock, to a temporary file next to the file.
//
// # What is promised
//
// A reader of the file sees the old or the new content and never a part. The file is
// exchanged with its new content where the system can, which shows whether it still was
// what had been read; otherwise it is replaced by rename. It is read back under the same
// lock and compared byte for byte; when another program that ignores the lock has
// overwritten it, or has written it right before, the change is made again on what is
// there now, three times at most.
//
// The lock is held for 400 ms at most, whatever the disk does: a change that takes
// longer is given up unwritten. Only replacing the file itself, once begun, is waited
// for. Right before the rename, and again before the rmdir, the lock
// directory must still be the one we made, its time equal to the nanosecond.
// A process that was stopped for longer than the 10 s finds another's lock
// there and writes and removes nothing. A process that is killed leaves its lock
// directory, which others take over when it is 10 s old.
//
// # What others who watch the directory are told
//
// On Linux, inotify says of a file that was exchanged, after the creation of NAME.lock
// and before its removal:
//
//	MOVED_TO   NAME    the new content came
//	MOVED_FROM NAME    the old content went
//
// Both halves have partners outside of the directory, so their cookies match nothing.
// The last event about the file is MOVED_FROM although the file is there: fsnotify
// reports a Rename, which other libraries call "removed". A program that watches should
// take an event as a reason to look, and look at the file, not at the kind of the event.
// A watch on the file itself gets MOVE_SELF and stays with the old content: watch the
// directory. Claude Code writes NAME.tmp.XXXX there and renames it, so of its writes the
// last event is MOVED_TO. A file that was not there comes with MOVED_TO alone.
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

	// ErrForeignLock means that a file, or a directory with content, stands
	// where the lock directory belongs. It has to be removed by hand (or by
	// "teambridge doctor --fix"): it also keeps every Claude Code agent from
	// writing to this file.
	ErrForeignLock = errors.New("something that is not a lock stands in the lock's place")

	// ErrCompromised means that the lock was taken over by another program
	// while we held it. Unless [CompromisedError.Replaced] says otherwise,
	// nothing was written.
	ErrCompromised = errors.New("the lock was taken over while it was held")

	// ErrHeldTooLong means that the lock was released after [Options.Hold] with nothing
	// written: the file had changed before it could be locked, and writing it took too
	// long to do under the lock.
	ErrHeldTooLong = errors.New("writing took too long to keep the lock for it")

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
	// Dir holds the flock files, one for each file ever transformed, and what
	// stood in those files before they were changed the last time. It is made
	// (0700) when missing, must not be inside a team, and should be on the file
	// system of the files: then they can be exchanged. Empty: no flock; the lock
	// directory alone still excludes everybody.
	Dir string

	// Wait is the deadline for taking all locks; 0 means [DefaultWait].
	Wait time.Duration

	// Hold is how long the lock directory is held at most before the file is
	// replaced; 0 means [MaxHold].
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

	// Guard, if not nil, is asked before the file is read, right before the
	// rename, and after the read-back. Its error ends the Transform
	// with nothing written; after the rename, with a file that did not exist
	// before removed again, and one that did left as it is then ([ErrReplaced]).
	Guard func() error

	// Commit, if not nil, is called once when change wants to change the file, or
	// when that is not known because the file is being written: before the lock
	// directory is made, with our own locks held. What has to be on disk before the
	// file changes belongs there. Its error is returned as it is, and nothing is
	// written. After a Transform that fails without [ErrReplaced], or whose last call
	// of change left the file as it is, it is for the caller to take it back.
	Commit func() error

	// Seen, if not nil, is told what is in the file at the end of a Transform
	// that did not fail, once: what was read back or, where nothing was changed,
	// what change was given; nil where there is no file. The reading was between
	// began and ended: of what was changed, while the lock was held. It must be
	// quick, and must not change content.
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
// as does content equal to the old. The new content may use the memory of the old one,
// which has room for [Spare] bytes more, but overwrite nothing before its last [Spare]
// bytes: appending to a large file would copy it. change must
// have no effect but its result: it is called before the lock is taken and, if the
// file is another by then, again while the lock is held, so it has to be quick. It is
// called up to three times more when the file does not read back as written: where it
// then finds its change in the file, and leaves it as it is, that is success. An error
// of change under the lock is returned as it is, and nothing is written.
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
	displaced, err := l.displaced(f)
	if err != nil {
		return err
	}
	defer displaced.close()

	t := &transform{file: f, change: change, displaced: displaced, before: l.opts.Before}
	d, done, err := t.ahead()
	if done || err != nil {
		return err
	}
	l.opts.Before(StepLock)
	lock, err := lockDir(wait, f, start, l.opts.Hold)
	if err != nil {
		if derr := d.discard(); derr != nil {
			err = errors.Join(err, derr)
		}
		return err
	}
	defer func() {
		l.opts.Before(StepUnlock)
		uerr := lock.release()
		l.leaveFree(f, time.Since(lock.since))
		if uerr != nil && err == nil {
			err = unknown(uerr, lock.replaced)
		}
	}()
	return t.locked(lock, d)
}

// errWaited is the cause of the deadline that is ours and not the caller's.
var errWaited = errors.New("lock deadline")

// transform is one Transform at work. Our own locks are held.
type transform struct {
	file      File
	change    func([]byte) ([]byte, error)
	displaced *displaced
	before    func(Step)
}

// draft is what is to become of a file.
type draft struct {
	old          []byte      // what stood in it; change may have overwritten its end
	tail         []byte      // that end
	info         fs.FileInfo // nil where it did not exist
	began, ended time.Time   // of the reading
	content      []byte      // nil: the file stays as it is
	tmp          *temp       // nil: not prepared yet
}

// discard removes what was prepared. It does nothing where there is no draft.
func (d *draft) discard() error {
	if d == nil {
		return nil
	}
	return d.tmp.remove()
}

// settled reports whether d was made from content that nobody was writing in place,
// as far as that can be told without the lock: a file that is empty, or that changes,
// may be in the middle of it.
func (d *draft) settled(f File) bool {
	return unchanged(f, d.info) && (d.info == nil || len(d.old) > 0 && int64(len(d.old)) == d.info.Size())
}

// draft reads the file and has it changed. Where the error is one of change, it comes
// with a draft.
func (t *transform) draft() (*draft, error) {
	t.before(StepRead)
	if err := t.file.guard(); err != nil {
		return nil, err
	}
	d := &draft{began: time.Now()}
	var err error
	if d.old, d.info, err = readFile(t.file); err != nil {
		return nil, err
	}
	d.ended = time.Now()
	d.tail = bytes.Clone(d.old[max(0, len(d.old)-Spare):])
	if d.content, err = t.change(d.old); err != nil {
		return d, err
	}
	if d.old != nil && bytes.Equal(d.old, d.content) {
		d.content = nil
	}
	if len(d.content) > MaxSize {
		return d, fmt.Errorf("write %s: %w (%d bytes)", t.file.Path(), ErrTooLarge, len(d.content))
	}
	return d, nil
}

// ahead does what can be done before the lock directory is made: it reads and changes
// the file, has the caller commit to that, and prepares the new content. It is done
// where nothing is to be changed. d is nil where the file could not be read like this:
// a program that writes in place was at it, perhaps.
func (t *transform) ahead() (d *draft, done bool, err error) {
	d, err = t.draft()
	switch {
	case d == nil:
		return nil, false, err
	case err != nil || !d.settled(t.file):
		d = nil
	case d.content == nil:
		t.file.seen(d.old, d.began, d.ended)
		return d, true, nil
	}
	if t.file.Commit != nil {
		if err := t.file.Commit(); err != nil {
			return nil, false, err
		}
	}
	if d != nil && t.displaced.usable(t.file) {
		if d.tmp, err = t.prepare(d.info, d.content); err != nil {
			return nil, false, t.file.wrap("write", err)
		}
	}
	return d, false, nil
}

// locked is the part of Transform that runs under all locks. d, if not nil, was
// drafted before.
func (t *transform) locked(lock *dirLock, d *draft) (err error) {
	f := t.file
	defer func() {
		if derr := d.discard(); derr != nil {
			err = errors.Join(err, derr)
		}
	}()
	if err := removeTemps(f); err != nil {
		return err
	}
	if d != nil {
		switch same, err := d.current(f); {
		case err != nil:
			return err
		case !same:
			if err := d.discard(); err != nil {
				return err
			}
			d = nil
		}
	}
	var lost error
	for n := 0; ; n++ {
		if d == nil {
			if d, err = t.draft(); err != nil {
				if d == nil {
					err = unknown(err, lock.replaced)
				}
				return err
			}
		}
		if d.content == nil {
			f.seen(d.old, d.began, d.ended)
			return nil
		}
		if n == attempts {
			if lost != nil {
				return lost
			}
			return fmt.Errorf("write %s: %w (%d times)", f.Path(), ErrClobbered, attempts)
		}
		switch err := t.replace(lock, d); {
		case err == nil:
			lost = nil
			if done, err := t.readBack(d); done || err != nil {
				return err
			}
		case errors.Is(err, errChanged):
			lost = nil
		default:
			lost = f.wrap("write", err)
			if !errors.Is(lost, fs.ErrNotExist) || errors.Is(lost, ErrGone) {
				return lost
			}
			// The temporary file was deleted, as a rule with the whole directory: the
			// next look tells.
		}
		if err := d.discard(); err != nil {
			return err
		}
		d = nil
		lock.retry()
	}
}

// current reports whether f still is what d was made from, to the byte: a write in
// place that keeps the size can leave the time as it was, on a file system with coarse
// times.
func (d *draft) current(f File) (bool, error) {
	if !unchanged(f, d.info) {
		return false, nil
	}
	if d.info == nil {
		return true, nil
	}
	return holds(f, d.old[:len(d.old)-len(d.tail)], d.tail)
}

// replace replaces the file by d, if the lock is still ours and the file what d was made
// from. Otherwise the file is as it was.
func (t *transform) replace(lock *dirLock, d *draft) (err error) {
	if d.tmp == nil {
		if d.tmp, err = t.prepare(d.info, d.content); err != nil {
			return err
		}
	}
	t.before(StepFence)
	if err = lock.commit(); err == nil {
		err = lock.check()
	}
	// A deletion of the whole directory takes the lock first: that is the better answer.
	if gerr := t.file.guard(); gerr != nil {
		return gerr
	}
	if err != nil {
		return err
	}
	if !unchanged(t.file, d.info) {
		return errChanged
	}
	t.before(StepRename)
	if err := d.tmp.replace(t.file, d.info, t.displaced); err != nil {
		return err
	}
	d.tmp = nil
	lock.replaced = true
	return nil
}

// readBack reports whether d is in the file that it has replaced. If not, another
// program has overwritten it.
func (t *transform) readBack(d *draft) (done bool, err error) {
	f := t.file
	t.before(StepReadBack)
	began := time.Now()
	same, err := holds(f, d.content)
	ended := time.Now()
	for err == nil && same && t.displaced.await() {
		began = time.Now()
		same, err = holds(f, d.content)
		ended = time.Now()
	}
	if gerr := f.guard(); gerr != nil {
		// The directory is being deleted around us: a file that we made in it would
		// keep it alive.
		if d.info == nil {
			return false, errors.Join(gerr, ignoreNotExist(f.Dir.Remove(f.Name)))
		}
		return false, unknown(gerr, true)
	}
	if err != nil {
		return false, unknown(fmt.Errorf("read back: %w", err), true)
	}
	if same {
		f.seen(d.content, began, ended)
	}
	return same, nil
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
	content := make([]byte, 0, info.Size()+Spare) // that also shows the end of the file without growing
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
func holds(f File, content ...[]byte) (bool, error) {
	r, _, err := open(f)
	if r == nil {
		return false, err
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

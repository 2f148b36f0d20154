package lockedfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// errWaited is the cause of our own deadline, as opposed to the caller's.
var errWaited = errors.New("lock deadline")

// transform is one Transform in progress. Our own locks are held.
type transform struct {
	file      File
	change    func([]byte) ([]byte, error)
	displaced *displaced
	before    func(Step)
}

// draft is a change of a file that was not written yet.
type draft struct {
	old          []byte      // the content that was read; change may have overwritten its end
	tail         []byte      // the original end of old
	info         fs.FileInfo // nil if the file did not exist
	began, ended time.Time   // the start and end of the read
	content      []byte      // nil if the file stays unchanged
	tmp          *temp       // nil if not prepared yet
}

// discard removes the prepared file, if any.
func (d *draft) discard() error {
	if d == nil {
		return nil
	}
	return d.tmp.remove()
}

// settled reports whether d was made from content that no program seems to be writing in place: the file is
// not empty, and did not change during the read.
func (d *draft) settled(f File) bool {
	return unchanged(f, d.info) && (d.info == nil || len(d.old) > 0 && int64(len(d.old)) == d.info.Size())
}

// draft reads the file and calls change. If change fails, draft also returns the draft.
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

// ahead does all work that needs no lock directory: it reads the file, calls change and Commit, and prepares
// the new content. done is true if there is nothing to change. d is nil if the file seemed to be in the
// middle of a write.
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

// locked is the part of Transform under all locks. d is the draft of ahead.
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
			if d.tmp.apart && t.displaced.unusable {
				n-- // the file has not changed: it just cannot be exchanged
			}
		default:
			lost = f.wrap("write", err)
			if !errors.Is(lost, fs.ErrNotExist) || errors.Is(lost, ErrGone) {
				return lost
			}
			// The temporary file was deleted, most likely with the whole directory. In that case, the next
			// read fails.
		}
		if err := d.discard(); err != nil {
			return err
		}
		d = nil
		lock.retry()
	}
}

// current reports whether f still has exactly the content that d was made from. It compares the bytes,
// because on a file system with coarse times, a write in place can leave both size and time unchanged.
func (d *draft) current(f File) (bool, error) {
	if !unchanged(f, d.info) {
		return false, nil
	}
	if d.info == nil {
		return true, nil
	}
	return holds(f, d.old[:len(d.old)-len(d.tail)], d.tail)
}

// replace replaces the file by d if the lock is still ours and the file is unchanged since d was made.
// Otherwise the file stays unchanged.
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
	// A deletion of the whole directory removes the lock first. In that case, report the deletion.
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

// readBack reports whether the file has the content of d. If not, another program has overwritten it.
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
		// The directory is being deleted, and a file that we made would prevent that.
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

// errChanged means that the file changed under the lock after it was read.
var errChanged = errors.New("the file was changed without its lock")

// unchanged reports whether f is still the file was; nil means that it did not exist.
func unchanged(f File, was fs.FileInfo) bool {
	now, err := f.Dir.Lstat(f.Name)
	if was == nil || err != nil {
		return was == nil && errors.Is(err, fs.ErrNotExist)
	}
	return SameFile(was, now)
}

// unknown adds [ErrReplaced] to err if the file was replaced.
func unknown(err error, replaced bool) error {
	if !replaced {
		return err
	}
	return fmt.Errorf("%w; %w", err, ErrReplaced)
}

package lockedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// temp is a temporary file with the new content of a file, flushed to disk. Package renameio cannot be used:
// it flushes right before the rename, while we would hold the lock.
type temp struct {
	dir   *os.Root
	name  string
	apart bool // it is in the state directory, not next to the file
}

// prepare makes the temporary file for content. old is the current file, whose mode and owner are kept; nil
// if it does not exist.
func (t *transform) prepare(old fs.FileInfo, content []byte) (tmp *temp, err error) {
	tmp = &temp{dir: t.file.Dir, name: "." + t.file.Name + strconv.FormatInt(rand.Int64(), 10)} // in the form of TempOf
	if t.displaced.usable(t.file) {
		tmp = &temp{dir: t.displaced.dir, name: newPrefix + strconv.FormatInt(rand.Int64(), 36), apart: true}
	}
	t.before(StepWrite)
	w, err := tmp.dir.OpenFile(tmp.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, unnamed(err)
	}
	if err := errors.Join(t.fill(w, old, content), unnamed(w.Close())); err != nil {
		return nil, errors.Join(err, tmp.remove())
	}
	return tmp, nil
}

// fill gives w the mode, owner and content of the new file, and flushes it to disk.
func (t *transform) fill(w *os.File, old fs.FileInfo, content []byte) error {
	if err := keepMode(t.file, old, w); err != nil {
		return unnamed(err)
	}
	if _, err := w.Write(content); err != nil {
		return unnamed(err)
	}
	t.before(StepFlush)
	return unnamed(w.Sync())
}

// replace puts tmp in the place of f. If the exchange shows that f was no longer old, replace undoes it, and
// the error is [errChanged].
func (tmp *temp) replace(f File, old fs.FileInfo, d *displaced) error {
	if !tmp.apart {
		return unnamed(rename(f.Dir, tmp.name, f.Name))
	}
	put := moveNew
	if old != nil {
		put = exchange
		if err := tmp.stamp(); err != nil {
			return err
		}
	}
	err := d.refused
	if err == nil {
		err = put(tmp.dir, tmp.name, f.Dir, f.Name)
	}
	if err != nil {
		// If f was just made or deleted, or tmp was deleted, the error does not concern the file system.
		d.unusable = !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist)
		return errChanged
	}
	if old == nil {
		return nil
	}
	if was, err := tmp.dir.Lstat(tmp.name); err == nil && !SameFile(old, was) {
		return errors.Join(errChanged, exchange(tmp.dir, tmp.name, f.Dir, f.Name))
	}
	return nil
}

// stamp renames tmp to the present time. After the exchange, this is the name of the old content, and the
// start of displacedLife.
func (tmp *temp) stamp() error {
	for at := time.Now(); ; at = at.Add(1) {
		name := strconv.FormatInt(at.UnixNano(), 10)
		if _, err := tmp.dir.Lstat(name); err == nil {
			continue // the clock was set back
		}
		err := tmp.dir.Rename(tmp.name, name)
		if errors.Is(err, fs.ErrNotExist) {
			return errChanged // tmp was deleted: prepare another one
		}
		if err != nil {
			return unnamed(err)
		}
		tmp.name = name
		return nil
	}
}

// remove removes tmp, if it exists.
func (tmp *temp) remove() error {
	if tmp == nil {
		return nil
	}
	return unnamed(ignoreNotExist(tmp.dir.Remove(tmp.name)))
}

// unnamed removes the name of the temporary file from err. The name differs in each attempt, but callers
// report each problem only once.
func unnamed(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return fmt.Errorf("%s its temporary file: %w", e.Op, e.Err)
	case *os.LinkError:
		return fmt.Errorf("%s from its temporary file: %w", e.Op, e.Err)
	}
	return err
}

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

// replace puts content in the place of f by rename. old is what f was before,
// nil where it is new: mode and owner are kept. fence is called when all but
// the rename is done; its error leaves f as it was.
//
// Where it can, it exchanges the two, so that the old content stays, as d says. What
// comes out shows whether f still was old; if not, f is as it was, and that is
// [errChanged].
//
// This is not google/renameio because that flushes the file once more, between
// the fence and the rename: up to half a millisecond, of the two that a small
// append takes.
func replace(f File, old fs.FileInfo, content []byte, d *asides, fence func() error) (err error) {
	dir, name := f.Dir, "."+f.Name+strconv.FormatInt(rand.Int64(), 10) // as TempOf knows it
	exchanging := old != nil && d.usable(f)
	if exchanging {
		dir = d.dir
	}
	var tmp *os.File
	for at := time.Now(); ; at = at.Add(1) {
		if exchanging {
			name = asideName(at)
		}
		if tmp, err = dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			break
		}
		if !exchanging || !errors.Is(err, fs.ErrExist) {
			return unnamed(err)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreNotExist(dir.Remove(name)))
		}
	}()
	if err := errors.Join(fill(f, old, tmp, content), unnamed(tmp.Close())); err != nil {
		return err
	}
	if err := fence(); err != nil {
		return err
	}
	if !exchanging {
		return unnamed(rename(f.Dir, name, f.Name))
	}
	if err := exchange(dir, name, f.Dir, f.Name); err != nil {
		// f was deleted in this moment, or the file system cannot: all of it once
		// more, without.
		d.unusable = true
		return errChanged
	}
	if was, err := dir.Lstat(name); err == nil && !sameFile(old, was) {
		return errors.Join(errChanged, exchange(dir, name, f.Dir, f.Name))
	}
	return nil
}

// unnamed takes the name of the temporary file out of err: it is another with each
// try, and one who tells of a trouble once could not see that it is the same.
func unnamed(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return fmt.Errorf("%s its temporary file: %w", e.Op, e.Err)
	case *os.LinkError:
		return fmt.Errorf("%s from its temporary file: %w", e.Op, e.Err)
	}
	return err
}

// fill makes tmp all that f is to be, and flushes it to disk.
func fill(f File, old fs.FileInfo, tmp *os.File, content []byte) error {
	if err := keepMode(f, old, tmp); err != nil {
		return unnamed(err)
	}
	if _, err := tmp.Write(content); err != nil {
		return unnamed(err)
	}
	return unnamed(tmp.Sync())
}

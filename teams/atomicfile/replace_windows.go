package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// errSharingViolation is an error number that package syscall does not name.
const errSharingViolation syscall.Errno = 32

// Replace is [Write] of what the function writes. If that fails, the file stays as it
// was, and the error is returned.
//
// Package renameio has no Windows: renames there are not promised to be atomic.
func Replace(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return rename(f.Name(), path)
}

// rename tries again for half a second: a reader or a virus scanner that has the old
// file open makes a rename fail for a moment.
func rename(from, to string) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := os.Rename(from, to)
		if err == nil || wait > 256*time.Millisecond ||
			!errors.Is(err, errSharingViolation) && !errors.Is(err, syscall.ERROR_ACCESS_DENIED) {
			return err
		}
		time.Sleep(wait)
	}
}

// Exposed is never true: the mode that package os makes up says nothing about who may use a file.
func Exposed(fs.FileInfo) bool { return false }

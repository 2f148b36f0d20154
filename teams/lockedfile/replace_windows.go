package lockedfile

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Windows error numbers that package syscall does not name.
const (
	errSharingViolation syscall.Errno = 32
	errDirNotEmpty      syscall.Errno = 145
)

// replace puts content in the place of f by rename. old is what f was before,
// nil where it is new. fence is called when all but the rename is done; its
// error leaves f as it was.
func replace(f File, _ fs.FileInfo, content []byte, fence func() error) (err error) {
	name := "." + f.Name + strconv.FormatInt(rand.Int64(), 10)
	tmp, err := f.Dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreNotExist(f.Dir.Remove(name)))
		}
	}()
	_, err = tmp.Write(content)
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := fence(); err != nil {
		return err
	}
	// A reader or a virus scanner that has the old file open makes the rename
	// fail for a moment.
	for wait := time.Millisecond; ; wait *= 2 {
		err := f.Dir.Rename(name, f.Name)
		if err == nil || wait > 256*time.Millisecond ||
			!errors.Is(err, errSharingViolation) && !errors.Is(err, syscall.ERROR_ACCESS_DENIED) {
			return err
		}
		time.Sleep(wait)
	}
}

// isNotEmpty reports whether err says that a directory has something in it.
func isNotEmpty(err error) bool { return errors.Is(err, errDirNotEmpty) }

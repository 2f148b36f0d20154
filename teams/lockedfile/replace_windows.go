package lockedfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Windows error numbers that package syscall does not name.
const (
	errSharingViolation syscall.Errno = 32
	errDirNotEmpty      syscall.Errno = 145
)

// keepMode does nothing: a new file inherits the owner and the access list of its directory.
func keepMode(File, fs.FileInfo, *os.File) error { return nil }

func rename(dir *os.Root, from, to string) error {
	// A reader or a virus scanner that has the old file open makes the rename fail for a moment.
	for wait := time.Millisecond; ; wait *= 2 {
		err := dir.Rename(from, to)
		if err == nil || wait > 256*time.Millisecond ||
			!errors.Is(err, errSharingViolation) && !errors.Is(err, syscall.ERROR_ACCESS_DENIED) {
			return err
		}
		time.Sleep(wait)
	}
}

// maxYield is how long a reader waits for the holder of a lock. Agents hold a lock for some milliseconds.
const maxYield = 250 * time.Millisecond

// yield waits until the lock of a file is free.
func yield(dir *os.Root, name string) {
	for start := time.Now(); Busy(dir, name) && time.Since(start) < maxYield; {
		time.Sleep(time.Millisecond)
	}
}

// isNotEmpty reports whether err means that a directory is not empty.
func isNotEmpty(err error) bool { return errors.Is(err, errDirNotEmpty) }

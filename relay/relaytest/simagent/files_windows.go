package simagent

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// errSharingViolation is an error number that package syscall does not name.
const errSharingViolation syscall.Errno = 32

// rename retries for some seconds: a file that any process has open, even another agent that reads its inbox,
// cannot be replaced. What Claude Code does then was not measured.
func rename(from, to string) error {
	start := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, 32*time.Millisecond) {
		err := os.Rename(from, to)
		if err == nil || time.Since(start) > 10*time.Second || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errSharingViolation) {
			return err
		}
		time.Sleep(wait)
	}
}

// readFile opens a file as Node.js does: others may rename and remove it meanwhile, and it may be opened while they do.
func readFile(path string) ([]byte, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ, syscall.FILE_SHARE_READ|syscall.FILE_SHARE_WRITE|syscall.FILE_SHARE_DELETE,
		nil, syscall.OPEN_EXISTING, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(h), path)
	defer f.Close()
	return io.ReadAll(f)
}

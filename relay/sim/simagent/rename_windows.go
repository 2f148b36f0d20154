package simagent

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// errSharingViolation is an error number that package syscall does not name.
const errSharingViolation syscall.Errno = 32

// rename tries again for half a second: a file that anybody has open, if only another agent that looks into
// its inbox, may not be replaced. What Claude Code does then was not measured.
func rename(from, to string) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := os.Rename(from, to)
		if err == nil || wait > 256*time.Millisecond || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errSharingViolation) {
			return err
		}
		time.Sleep(wait)
	}
}

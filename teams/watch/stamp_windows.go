package watch

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// identify uses the time of creation, which differs in a replacement. A file index would need an open handle.
func identify(info fs.FileInfo) identity {
	if d, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		return identity{file: uint64(d.CreationTime.Nanoseconds())}
	}
	return identity{}
}

// openKept keeps no file open: while a handle is open, an agent could not replace its inbox.
func openKept(string) (*os.File, error) { return nil, errors.ErrUnsupported }

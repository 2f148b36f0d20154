//go:build unix

package watch

import (
	"io/fs"
	"os"
	"syscall"
)

func identify(info fs.FileInfo) identity {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{device: uint64(st.Dev), file: uint64(st.Ino)}
	}
	return identity{}
}

// openKept opens a file so that its bytes outlive its name. Without O_NONBLOCK, a named pipe of that name
// would block the watcher.
func openKept(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

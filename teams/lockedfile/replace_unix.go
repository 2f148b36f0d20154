//go:build !windows

package lockedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

func rename(dir *os.Root, from, to string) error { return dir.Rename(from, to) }

// yield does nothing, because an open file can be replaced on this system.
func yield(*os.Root, string) {}

// keepMode gives tmp the mode and the owner of f. A new file gets 0600 and the owner of its directory: if
// root writes to a user's inbox, the agent must still be able to use it.
func keepMode(f File, old fs.FileInfo, tmp *os.File) error {
	mode, like := fs.FileMode(0o600), old
	if old != nil {
		mode = old.Mode().Perm()
	} else if os.Geteuid() == 0 { // unless we are root, we own the file
		dir, err := f.Dir.Stat(".")
		if err != nil {
			return err
		}
		like = dir
	}
	info, err := tmp.Stat()
	if err != nil {
		return err
	}
	if like != nil {
		was, ok := like.Sys().(*syscall.Stat_t)
		is, ok2 := info.Sys().(*syscall.Stat_t)
		if ok && ok2 && (is.Uid != was.Uid || is.Gid != was.Gid) {
			if err := tmp.Chown(int(was.Uid), int(was.Gid)); err != nil {
				return fmt.Errorf("the file belongs to user %d, group %d, and replacing it would change that: %w", was.Uid, was.Gid, unnamed(err))
			}
		}
	}
	if info.Mode().Perm() != mode {
		return tmp.Chmod(mode)
	}
	return nil
}

// isNotEmpty reports whether err means that a directory is not empty.
func isNotEmpty(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST)
}

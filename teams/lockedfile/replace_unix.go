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

// yield does nothing: an open file can be replaced.
func yield(*os.Root, string) {}

// keepMode gives tmp the mode and the owner that f had, or a new f 0600 and the
// owner of its directory: root writing to a user's inbox must not take it from
// the agent.
func keepMode(f File, old fs.FileInfo, tmp *os.File) error {
	mode, like := fs.FileMode(0o600), old
	if old != nil {
		mode = old.Mode().Perm()
	} else if os.Geteuid() == 0 { // a new file of ours in another's directory is ours
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

// isNotEmpty reports whether err says that a directory has something in it.
func isNotEmpty(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST)
}

//go:build !windows

package lockedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/google/renameio/v2"
)

// replace puts content in the place of f by rename. old is what f was before,
// nil where it is new: mode and owner are kept. fence is called when all but
// the rename is done; its error leaves f as it was.
func replace(f File, old fs.FileInfo, content []byte, fence func() error) (err error) {
	opts := []renameio.Option{renameio.WithRoot(f.Dir), renameio.WithStaticPermissions(0o600)}
	if old != nil {
		opts[1] = renameio.WithStaticPermissions(old.Mode().Perm())
	}
	tmp, err := renameio.NewPendingFile(f.Name, opts...)
	if err != nil {
		return err
	}
	defer func() {
		// After the rename there is nothing to clean up.
		if cerr := ignoreNotExist(tmp.Cleanup()); cerr != nil && err == nil {
			err = cerr
		}
	}()
	if err := keepOwner(f, old, tmp.File); err != nil {
		return err
	}
	if _, err := tmp.Write(content); err != nil {
		return err
	}
	// Flushed before the fence, so that the second flush of
	// CloseAtomicallyReplace has nothing to do and no time passes between the
	// fence and the rename.
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := fence(); err != nil {
		return err
	}
	return tmp.CloseAtomicallyReplace()
}

// keepOwner gives tmp the owner that f had, or a new f the owner of its
// directory: root writing to a user's inbox must not take it from the agent.
func keepOwner(f File, old fs.FileInfo, tmp *os.File) error {
	if old == nil {
		dir, err := f.Dir.Stat(".")
		if err != nil {
			return err
		}
		if os.Geteuid() != 0 {
			return nil // a new file of ours in another's directory is ours
		}
		old = dir
	}
	was, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := tmp.Stat()
	if err != nil {
		return err
	}
	if is, ok := info.Sys().(*syscall.Stat_t); !ok || is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	if err := tmp.Chown(int(was.Uid), int(was.Gid)); err != nil {
		return fmt.Errorf("the file belongs to user %d, group %d, and replacing it would change that: %w", was.Uid, was.Gid, err)
	}
	return nil
}

// isNotEmpty reports whether err says that a directory has something in it.
func isNotEmpty(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST)
}

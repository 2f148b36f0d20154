//go:build unix

package sqlite

import (
	"io/fs"
	"os"
	"syscall"
)

// makePrivate removes the rights of all but the owner, and returns the identity of the file. It works by name:
// closing a descriptor would drop the locks of another DB in this process.
func makePrivate(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return info, err
	}
	return info, os.Chmod(path, info.Mode().Perm()&0o700)
}

// writable reports whether this process may write the file.
func writable(path string) bool {
	const write = 2 // W_OK
	return syscall.Access(path, write) == nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

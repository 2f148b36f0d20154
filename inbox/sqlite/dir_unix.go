//go:build unix

package sqlite

import (
	"io/fs"
	"os"
)

// makePrivate takes the rights of all but the owner away, and returns which file it is. By
// name: closing a descriptor would drop the locks of another DB of this process.
func makePrivate(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return info, err
	}
	return info, os.Chmod(path, info.Mode().Perm()&0o700)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

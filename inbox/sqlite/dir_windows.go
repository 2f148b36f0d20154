package sqlite

import (
	"io/fs"
	"os"
)

// makePrivate only identifies the file. Files inherit the rights of their directory, and the state directory
// is in the user's profile.
func makePrivate(path string) (fs.FileInfo, error) { return os.Stat(path) }

// writable reports whether the file lacks the attribute that makes it read-only.
func writable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o200 != 0
}

// syncDir: Windows cannot flush a directory through a handle Go opens; NTFS
// journals names itself.
func syncDir(string) error { return nil }

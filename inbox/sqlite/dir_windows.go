package sqlite

import (
	"io/fs"
	"os"
)

// makePrivate only returns the identity of the file. Files inherit the rights of their directory, and the state
// directory is in the user's profile.
func makePrivate(path string) (fs.FileInfo, error) { return os.Stat(path) }

// writable reports whether the file is without the read-only attribute.
func writable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o200 != 0
}

// syncDir does nothing: Windows cannot flush a directory through a handle that Go opens, and NTFS journals names.
func syncDir(string) error { return nil }

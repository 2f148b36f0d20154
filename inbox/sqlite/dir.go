package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// makeDir makes dir and its missing parents, for the owner alone. It also flushes the name of a new directory
// to the disk: if a power cut undid the directory, the records in it would be lost. Existing directories keep
// their mode.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		// Another process may have made it first. A file with this name is an error.
		if info, e := os.Stat(dir); !errors.Is(err, fs.ErrExist) || e != nil || !info.IsDir() {
			return err
		}
	}
	return syncDir(parent)
}

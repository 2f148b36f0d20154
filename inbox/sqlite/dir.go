package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// makeDir makes dir and what is missing above it, for the owner alone. It also flushes the
// name of a new directory to the disk: if a power cut took the directory back, the records
// in it would be lost. Directories that exist keep their mode.
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
		// Another process can have been quicker; a file in the way cannot.
		if info, e := os.Stat(dir); !errors.Is(err, fs.ErrExist) || e != nil || !info.IsDir() {
			return err
		}
	}
	return syncDir(parent)
}

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// migrate brings the file up to the newest version, in one transaction that excludes all other processes. A copy of
// the earlier version stays next to the file: see copies. A newer or foreign file is not changed.
func migrate(c *Conn, path string, format Format) error {
	// The usual case, in two reads and without a transaction. Another process can migrate between them, so only this
	// result is certain.
	version, err := c.Number("PRAGMA user_version")
	if err != nil {
		return err
	}
	if version == int64(len(format.Schema)) {
		if app, err := c.Number("PRAGMA application_id"); err != nil || app == int64(format.Application) {
			return err
		}
	}
	at := 0
	err = c.Transaction("DEFERRED", func() (err error) {
		at, err = versionOf(c, path, format)
		return err
	})
	if err != nil {
		return err
	}
	if at == 0 {
		// These settings cannot be made in a transaction. They stay with the file.
		if _, err := c.Exec(format.Create + "; PRAGMA journal_mode=WAL"); err != nil {
			return err
		}
	}
	return upgrade(c, path, format)
}

// upgrade brings the file to the newest version, unless another process has done so meanwhile.
func upgrade(c *Conn, path string, format Format) error {
	newest := len(format.Schema)
	return c.Transaction("EXCLUSIVE", func() error {
		at, err := versionOf(c, path, format)
		if err != nil || at == newest {
			return err
		}
		if at > 0 {
			if err := keepCopy(path, at); err != nil {
				return fmt.Errorf("keep a copy before it is brought up to date: %w", err)
			}
		}
		for _, script := range format.Schema[at:] {
			if _, err := c.Exec(script); err != nil {
				return err
			}
		}
		_, err = c.Exec(fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", format.Application, newest))
		return err
	})
}

// versionOf returns the version of the file, or 0 if it is empty. It runs several queries, so it must be called in a
// transaction: between two of them another process could create the database, which would then look like another
// program's.
func versionOf(c *Conn, path string, format Format) (int, error) {
	version, err := c.Number("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	app, err := c.Number("PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	tables, err := c.Number("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	switch known := len(format.Schema); {
	case app == int64(format.Application) && version > int64(known):
		return 0, &NewerError{Name: format.Name, Path: path, Version: int(version), Known: known}
	case app == int64(format.Application) && version > 0:
		return int(version), nil
	case slices.Contains(format.Development, int32(app)):
		return 0, ErrDevelopment
	case app != 0 || version != 0 || tables != 0:
		return 0, ErrForeign
	}
	return 0, nil
}

// copyName is added to the name of a database, before the version, for the name of a copy.
const copyName = ".version"

// copies returns the copies of the database at path that were made before it was brought up to date: PATH.versionN,
// of version N. Only the last copy is kept. Earlier ones remain if the process that made it was killed.
func copies(path string) (all []string, err error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), base+copyName) {
			all = append(all, dir+e.Name())
		}
	}
	return all, err
}

// keepCopy makes a copy of a database, and removes earlier copies. The caller must hold the lock for writing. The
// copy takes at most as much space as the database.
func keepCopy(path string, version int) error {
	earlier, err := copies(path)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s%s%d", path, copyName, version)
	half := path + ".copying"                                              // one process at a time gets here
	f, err := os.OpenFile(half, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // SQLite would use 0644, but takes an empty file
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err = copyTo(path, half); err == nil {
		err = syncFile(half) // SQLite does not flush it
	}
	if err != nil {
		return errors.Join(err, os.Remove(half))
	}
	if err := os.Rename(half, name); err != nil {
		return err
	}
	for _, old := range earlier {
		if old != name {
			if err := os.Remove(old); err != nil {
				return err
			}
		}
	}
	return syncDir(filepath.Dir(path))
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// copyTo writes the committed content of the database at path into an empty file.
func copyTo(path, to string) (err error) {
	c, err := connect(uri(path)) // another connection: VACUUM cannot run in a transaction
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	_, err = c.Exec("VACUUM INTO ?", to)
	return err
}

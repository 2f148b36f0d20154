package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fileVersion is the version of a file. Those of [Format.Earlier] are counted by themselves.
type fileVersion struct {
	number  int // 0: the file is empty
	earlier bool
}

func (v fileVersion) String() string {
	if v.earlier {
		return fmt.Sprintf("0.%d", v.number)
	}
	return fmt.Sprint(v.number)
}

// migrate brings the file up to the newest version, in one transaction that no other process can come between. What it
// was before is kept beside it: see [Copies]. It does nothing to a file that is newer or of something else.
func migrate(c *Conn, path string, format Format) error {
	if ok, err := current(c, format); ok || err != nil {
		return err
	}
	var at fileVersion
	err := c.Transaction("DEFERRED", func() (err error) {
		at, err = check(c, path, format)
		return err
	})
	switch {
	case err != nil:
		return err
	case at.earlier:
		if err := convert(c, path, format); err != nil {
			return err
		}
	case at.number == 0:
		// Cannot be done in a transaction, and stays with the file.
		if _, err := c.Exec(format.Create + "; PRAGMA journal_mode=WAL"); err != nil {
			return err
		}
	}
	return upgrade(c, path, format)
}

// current reports whether there is nothing to migrate: the usual case, in two reads and
// without a transaction. Only true is certain, since another process can migrate between
// the reads.
func current(c *Conn, format Format) (bool, error) {
	version, err := c.Number("PRAGMA user_version")
	if err != nil || version != int64(len(format.Schema)) {
		return false, err
	}
	app, err := c.Number("PRAGMA application_id")
	return app == int64(format.Application), err
}

// check returns the version of the file. It asks more than one question, so it must be called
// in a transaction: between two of them another process can create the database, which then
// looks like another program's.
func check(c *Conn, path string, format Format) (at fileVersion, err error) {
	n, err := c.Number("PRAGMA user_version")
	if err != nil {
		return at, err
	}
	app, err := c.Number("PRAGMA application_id")
	if err != nil {
		return at, err
	}
	known := len(format.Schema)
	if at.earlier = app != 0 && app == int64(format.Earlier.Application); at.earlier {
		known = len(format.Earlier.Schema)
	}
	at.number = int(n)
	switch ours := at.earlier || app == int64(format.Application); {
	case ours && at.number > known:
		return at, &NewerError{Name: format.Name, Path: path, Version: at.number, Known: known}
	case ours && at.number > 0:
		return at, nil
	case slices.Contains(format.Development, int32(app)):
		return at, ErrDevelopment
	case app != 0 || n != 0:
		return at, ErrForeign
	}
	tables, err := c.Number("SELECT count(*) FROM sqlite_schema")
	if err == nil && tables > 0 {
		err = ErrForeign
	}
	return at, err
}

// upgrade makes the file one of the newest version, unless another process did in the meantime.
func upgrade(c *Conn, path string, format Format) error {
	return c.Transaction("EXCLUSIVE", func() error {
		at, err := check(c, path, format)
		if err != nil || at.number == len(format.Schema) {
			return err
		}
		if at.number > 0 {
			if err := keepCopy(path, at); err != nil {
				return err
			}
		}
		for _, script := range format.Schema[at.number:] {
			if _, err := c.Exec(script); err != nil {
				return err
			}
		}
		return mark(c, format.Application, len(format.Schema))
	})
}

// copyName is what is added to the name of a database for a copy, before the version.
const copyName = ".version"

// Copies returns the copies of the database at path that were made before it was brought up to date: PATH.versionN, of
// version N (0.N for [Format.Earlier]). There is one, of the last time, unless the process that made another one was killed.
func Copies(path string) (copies []string, err error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), base+copyName) {
			copies = append(copies, dir+e.Name())
		}
	}
	return copies, err
}

// keepCopy makes a copy of a database of which the caller has the lock for writing, and removes earlier ones. It takes at
// most as much space as the database.
func keepCopy(path string, at fileVersion) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keep a copy before it is brought up to date: %w", err)
		}
	}()
	earlier, err := Copies(path)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s%s%s", path, copyName, at)
	half := path + ".copying" // one process at a time gets here
	if err := os.Remove(half); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(half, os.O_CREATE|os.O_EXCL, 0o600) // SQLite would make it 0644; it takes one that is empty
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err = copyTo(path, half); err == nil {
		err = syncFile(half) // SQLite does not
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

// copyTo writes what was last committed to the database at path into an empty file.
func copyTo(path, to string) (err error) {
	c, err := connect(context.Background(), uri(path)) // one more: VACUUM cannot be run in a transaction
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	_, err = c.Exec("VACUUM INTO ?", to)
	return err
}

// errNotAlone: another process has a file of [Format.Earlier] open.
var errNotAlone = errors.New("open in another process")

// convert makes version 1 out of a file of [Format.Earlier], unless another process has done
// so meanwhile. SQLite stops using a write-ahead log only if nobody else has the file open.
// The log comes back before the file gets the mark of its new version: if the process is
// killed earlier, the next one goes on here.
func convert(c *Conn, path string, format Format) error {
	if _, err := c.Exec("PRAGMA journal_mode=DELETE"); isBusy(err) {
		return errNotAlone
	} else if err != nil {
		return err
	}
	last := len(format.Earlier.Schema)
	err := c.Transaction("IMMEDIATE", func() error { // which lets others read
		at, err := check(c, path, format)
		if err != nil || !at.earlier {
			return err
		}
		return keepCopy(path, at)
	})
	if err != nil {
		return err
	}
	err = c.Transaction("EXCLUSIVE", func() error {
		at, err := check(c, path, format)
		if err != nil || !at.earlier {
			return err
		}
		for _, script := range format.Earlier.Schema[at.number:] {
			if _, err := c.Exec(script); err != nil {
				return err
			}
		}
		return mark(c, format.Earlier.Application, last)
	})
	_, walErr := c.Exec("PRAGMA journal_mode=WAL")
	if err := cmp.Or(err, walErr); err != nil {
		return err
	}
	return c.Transaction("EXCLUSIVE", func() error {
		if at, err := check(c, path, format); err != nil || !at.earlier {
			return err
		}
		return mark(c, format.Application, 1)
	})
}

// mark sets what check returns.
func mark(c *Conn, application int32, number int) error {
	_, err := c.Exec(fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", application, number))
	return err
}

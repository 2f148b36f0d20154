package sqlite

import (
	"cmp"
	"errors"
	"fmt"
)

// fileVersion is the version of a file. Those of [Format.Earlier] are counted by themselves.
type fileVersion struct {
	number  int // 0: the file is empty
	earlier bool
}

// migrate brings the file up to the newest version, each step in a transaction
// of its own that no other process can come between. It does nothing to a
// file that is newer or of something else.
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
		at = fileVersion{number: 1}
	case at.number == 0:
		// Cannot be done in a transaction, and stays with the file.
		if _, err := c.Exec(format.Create + "; PRAGMA journal_mode=WAL"); err != nil {
			return err
		}
	}
	for at.number < len(format.Schema) {
		if at, err = step(c, path, format); err != nil {
			return err
		}
	}
	return nil
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
	case app != 0 || n != 0:
		return at, ErrForeign
	}
	tables, err := c.Number("SELECT count(*) FROM sqlite_schema")
	if err == nil && tables > 0 {
		err = ErrForeign
	}
	return at, err
}

// step makes the file one version newer, unless another process did in the meantime, and
// returns the version it then has.
func step(c *Conn, path string, format Format) (at fileVersion, err error) {
	err = c.Transaction("EXCLUSIVE", func() error {
		if at, err = check(c, path, format); err != nil || at.number == len(format.Schema) {
			return err
		}
		if _, err := c.Exec(format.Schema[at.number]); err != nil {
			return err
		}
		at.number++
		return mark(c, format.Application, at.number)
	})
	return at, err
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
	err := c.Transaction("EXCLUSIVE", func() error {
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

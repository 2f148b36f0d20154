package sqlite

import "fmt"

// migrate brings the file up to the newest version, each step in a transaction
// of its own that no other process can come between. It does nothing to a
// file that is newer or of something else.
func migrate(c *Conn, path string, format Format) error {
	if ok, err := current(c, format); ok || err != nil {
		return err
	}
	var version int
	err := c.Transaction("DEFERRED", func() (err error) {
		version, err = check(c, path, format)
		return err
	})
	if err != nil {
		return err
	}
	if version == 0 {
		// Cannot be done in a transaction, and stays with the file.
		if _, err := c.Exec(format.Create + "; PRAGMA journal_mode=WAL"); err != nil {
			return err
		}
	}
	for version < len(format.Schema) {
		if version, err = step(c, path, format); err != nil {
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

// check returns the version of the file, 0 if it is empty. It asks more than one question,
// so it must be called in a transaction: between two of them another process can create
// the database, which then looks like another program's.
func check(c *Conn, path string, format Format) (int, error) {
	version, err := c.Number("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	app, err := c.Number("PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	known := len(format.Schema)
	foreign := &Error{Name: format.Name, Op: "open", Path: path, Kind: ErrForeign}
	switch {
	case app != 0 && app == int64(format.Retired):
		return 0, &Error{Name: format.Name, Op: "open", Path: path, Kind: ErrRetired}
	case app == int64(format.Application) && version > int64(known):
		return 0, &NewerError{Name: format.Name, Path: path, Version: int(version), Known: known}
	case app == int64(format.Application) && version > 0:
		return int(version), nil
	case app != 0 || version != 0:
		return 0, foreign
	}
	tables, err := c.Number("SELECT count(*) FROM sqlite_schema")
	if err == nil && tables > 0 {
		err = foreign
	}
	return 0, err
}

// step makes the file one version newer, unless another process did in the meantime, and
// returns the version it then has.
func step(c *Conn, path string, format Format) (version int, err error) {
	err = c.Transaction("EXCLUSIVE", func() error {
		if version, err = check(c, path, format); err != nil || version == len(format.Schema) {
			return err
		}
		if _, err := c.Exec(format.Schema[version]); err != nil {
			return err
		}
		version++
		_, err := c.Exec(fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", format.Application, version))
		return err
	})
	return version, err
}

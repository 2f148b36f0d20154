package ledger

import "fmt"

// application marks a database as a ledger, in the header field SQLite has for
// that: "tbLG" in ASCII.
const application = 0x74624c47

// schema holds one script for each version: the n-th brings a file of version n
// to version n+1, so the newest version is their number. A script that was
// released is never changed, and has its ledger of that version in testdata.
//
// The tables have no rowid, so a row is in one tree and a commit mostly
// writes one page. Times are microseconds since 1970.
func schema() []string {
	return []string{
		`CREATE TABLE sends (
			root       TEXT    NOT NULL,
			team       TEXT    NOT NULL,
			created_at INTEGER NOT NULL,
			inbox      TEXT    NOT NULL,
			id         TEXT    NOT NULL,
			digest     BLOB    NOT NULL,
			before     TEXT    NOT NULL,
			state      TEXT    NOT NULL,
			at         INTEGER NOT NULL,
			PRIMARY KEY (root, team, created_at, inbox, id)
		) STRICT, WITHOUT ROWID;
		CREATE TABLE joins (
			root       TEXT    NOT NULL,
			team       TEXT    NOT NULL,
			created_at INTEGER NOT NULL,
			member     TEXT    NOT NULL,
			at         INTEGER NOT NULL,
			PRIMARY KEY (root, team, created_at, member)
		) STRICT, WITHOUT ROWID;`,
	}
}

// migrate brings the file up to the newest version, each step in a transaction
// of its own that no other process can come between. It does nothing to a
// file that is newer or not a ledger.
func migrate(c *conn, path string, schema []string) error {
	if ok, err := current(c, len(schema)); ok || err != nil {
		return err
	}
	var version int
	err := transact(c, "BEGIN", func() (err error) {
		version, err = check(c, path, len(schema))
		return err
	})
	if err != nil {
		return err
	}
	if version == 0 {
		// Cannot be done in a transaction, and stays with the file.
		if _, err := c.exec("PRAGMA journal_mode=WAL"); err != nil {
			return err
		}
	}
	for version < len(schema) {
		if version, err = step(c, path, schema); err != nil {
			return err
		}
	}
	return nil
}

// step makes the file one version newer, unless another process made it the
// newest in the meantime, and gives the version it then has.
func step(c *conn, path string, schema []string) (version int, err error) {
	err = transact(c, "BEGIN EXCLUSIVE", func() (err error) {
		version, err = check(c, path, len(schema))
		if err != nil || version == len(schema) {
			return err
		}
		if _, err := c.exec(schema[version]); err != nil {
			return err
		}
		version++
		_, err = c.exec(fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", application, version))
		return err
	})
	return version, err
}

// current tells whether there is nothing to migrate: the usual case, in two
// reads and without a transaction. Only its yes is sure, since another
// process can migrate between the reads.
func current(c *conn, known int) (bool, error) {
	version, err := c.number("PRAGMA user_version")
	if err != nil || version != int64(known) {
		return false, err
	}
	app, err := c.number("PRAGMA application_id")
	return app == application, err
}

// check gives the version of the file, 0 if it is empty. It must run in a
// transaction: a process that read the version before and the rest after
// another one's first migration would take the file for a foreign one.
func check(c *conn, path string, known int) (int, error) {
	version, err := c.number("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	app, err := c.number("PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	switch {
	case app == application && version > int64(known):
		return 0, &NewerError{Path: path, Version: int(version), Known: known}
	case app == application && version > 0:
		return int(version), nil
	case app != 0 || version != 0:
		return 0, &Error{Op: "open", Path: path, Kind: ErrForeign}
	}
	tables, err := c.number("SELECT count(*) FROM sqlite_schema")
	if err == nil && tables > 0 {
		err = &Error{Op: "open", Path: path, Kind: ErrForeign}
	}
	return 0, err
}

// transact runs f between begin and COMMIT, or undoes what it did.
func transact(c *conn, begin string, f func() error) error {
	if _, err := c.exec(begin); err != nil {
		return err
	}
	err := f()
	if err == nil {
		_, err = c.exec("COMMIT")
	}
	if err != nil {
		_, _ = c.exec("ROLLBACK") // refused where SQLite did it already
	}
	return err
}

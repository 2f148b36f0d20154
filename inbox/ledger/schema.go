package ledger

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
			agent_id   TEXT    NOT NULL,
			at         INTEGER NOT NULL,
			PRIMARY KEY (root, team, created_at, member)
		) STRICT, WITHOUT ROWID;`,
	}
}

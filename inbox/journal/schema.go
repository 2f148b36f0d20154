package journal

import (
	"time"

	"teambridge/inbox/sqlite"
)

// application marks a database as a journal, in the header field SQLite has for
// that: "tbJN" in ASCII.
const application = 0x74624a4e

// schema holds one script for each version: the n-th brings a file of version n
// to version n+1, so the newest version is their number. A script that was
// released is never changed, and has its journal of that version in testdata.
//
// Every seq is from the one counter. Times are microseconds since 1970.
func schema() []string {
	return []string{
		`CREATE TABLE counter (
			only   INTEGER PRIMARY KEY CHECK (only = 1),
			seq    INTEGER NOT NULL, -- the last one given
			pruned INTEGER NOT NULL  -- the highest one that was deleted
		) STRICT;
		INSERT INTO counter VALUES (1, 0, 0);

		CREATE TABLE inboxes (
			id         INTEGER PRIMARY KEY AUTOINCREMENT,
			root       TEXT    NOT NULL,
			team       TEXT    NOT NULL,
			created_at INTEGER NOT NULL,
			inbox      TEXT    NOT NULL,
			first_seen INTEGER NOT NULL,
			began      INTEGER NOT NULL, -- of the newest snapshot
			ended      INTEGER NOT NULL,
			seq        INTEGER NOT NULL, -- of the last change
			UNIQUE (root, team, created_at, inbox)
		) STRICT;

		CREATE TABLE messages (
			seq        INTEGER PRIMARY KEY,
			inbox      INTEGER NOT NULL REFERENCES inboxes,
			digest     BLOB    NOT NULL,
			occurrence INTEGER NOT NULL,
			first_seen INTEGER NOT NULL,
			read_at    INTEGER,
			gone_at    INTEGER,
			id         TEXT    NOT NULL,
			sender     TEXT    NOT NULL,
			raw        BLOB    NOT NULL -- last: nothing else is to be looked for behind it
		) STRICT;
		CREATE UNIQUE INDEX messages_key ON messages (inbox, digest, occurrence);
		CREATE INDEX messages_inbox ON messages (inbox);
		CREATE INDEX messages_id ON messages (id);
		CREATE INDEX messages_present ON messages (inbox, digest, read_at) WHERE gone_at IS NULL;
		CREATE INDEX messages_gone ON messages (gone_at) WHERE gone_at IS NOT NULL;

		CREATE TABLE changes ( -- but for appearing, which has the seq of the message
			seq     INTEGER PRIMARY KEY,
			kind    TEXT    NOT NULL,
			message INTEGER NOT NULL REFERENCES messages
		) STRICT;
		CREATE INDEX changes_message ON changes (message);

		CREATE TABLE receipts (
			seq         INTEGER PRIMARY KEY, -- of the last change
			root        TEXT    NOT NULL,
			team        TEXT    NOT NULL,
			created_at  INTEGER NOT NULL,
			inbox       TEXT    NOT NULL,
			id          TEXT    NOT NULL,
			state       TEXT    NOT NULL,
			at          INTEGER NOT NULL, -- of the last change
			verified_at INTEGER,
			consumed_at INTEGER,
			lost_at     INTEGER,
			back_at     INTEGER,
			put_backs   INTEGER NOT NULL,
			reason      TEXT    NOT NULL,
			UNIQUE (root, team, created_at, inbox, id)
		) STRICT;
		CREATE INDEX receipts_at ON receipts (at);

		CREATE VIRTUAL TABLE words USING fts5(sender, summary, body, tokenize='unicode61 remove_diacritics 2');`,

		// What happened to relays and to what they brought, copied from ledgers:
		// up to which of a ledger's numbers is kept in the same commit.
		`CREATE TABLE relays (
			seq        INTEGER PRIMARY KEY,
			root       TEXT    NOT NULL,
			team       TEXT    NOT NULL,
			created_at INTEGER NOT NULL,
			inbox      TEXT    NOT NULL,
			at         INTEGER NOT NULL,
			delivery   TEXT    NOT NULL, -- '': it is about the relay
			id         TEXT    NOT NULL,
			sender     TEXT    NOT NULL,
			person     INTEGER NOT NULL,
			state      TEXT    NOT NULL,
			reason     TEXT    NOT NULL,
			pid        INTEGER NOT NULL,
			session    TEXT    NOT NULL,
			n          INTEGER NOT NULL
		) STRICT;
		CREATE INDEX relays_at ON relays (at);
		CREATE INDEX relays_id ON relays (id) WHERE id<>'';
		CREATE TABLE copied (
			source     TEXT    PRIMARY KEY,
			n          INTEGER NOT NULL
		) STRICT, WITHOUT ROWID;`,

		// Which messages are a person's words that never stood in an inbox.
		`CREATE TABLE said (
			message    INTEGER PRIMARY KEY REFERENCES messages,
			delivery   TEXT    NOT NULL UNIQUE
		) STRICT;`,

		// Keys of unread rows in front of a message that is on its way, separated by
		// blanks.
		`ALTER TABLE receipts ADD COLUMN ahead TEXT;`,

		// See Position. The first epoch has all numbers of earlier versions.
		`CREATE TABLE epochs (
			first      INTEGER PRIMARY KEY,
			id         TEXT    NOT NULL
		) STRICT;
		INSERT INTO epochs VALUES (0, ` + randomEpoch + `);`,

		// Which messages are what headless agents answered, and never stood in an inbox.
		`CREATE TABLE answers (
			message    INTEGER PRIMARY KEY REFERENCES messages,
			frame      TEXT    NOT NULL UNIQUE
		) STRICT;`,
	}
}

// micros is a time as it is in the database; NULL for none.
func micros(t time.Time) sqlite.Value {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// moment is the reverse of micros.
func moment(v sqlite.Value) time.Time {
	n, ok := v.(int64)
	if !ok {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

package ledger

// application marks a database as a ledger, in the header field SQLite has for
// that: "tbLG" in ASCII.
const application = 0x74624c47

// schema holds one script for each version: the n-th brings a file of version n
// to version n+1, so the newest version is their number. A script that was
// released is never changed, and has its ledger of that version in testdata.
//
// The tables of version 1 have no rowid, so a row is in one tree and a commit
// mostly writes one page. Times are microseconds since 1970.
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

		// The relay's. What is long is kept beside the row that changes, which
		// is written anew with each state.
		//
		// AUTOINCREMENT: the number of a delivery that was pruned does not come
		// back. The unique indexes hold what the engine rests on: one row of an
		// inbox is one delivery, and an inbox has one chain in flight. They
		// name the states that have not ended in the words of unended, or SQLite
		// would not use them.
		`CREATE TABLE posts (
			post       INTEGER PRIMARY KEY,
			root       TEXT    NOT NULL,
			team       TEXT    NOT NULL,
			created_at INTEGER NOT NULL,
			inbox      TEXT    NOT NULL,
			UNIQUE (root, team, created_at, inbox)
		) STRICT;
		CREATE TABLE deliveries (
			seq        INTEGER PRIMARY KEY AUTOINCREMENT,
			uuid       TEXT    NOT NULL UNIQUE,
			post       INTEGER NOT NULL,
			key        TEXT    NOT NULL,
			occurrence INTEGER NOT NULL,
			id         TEXT    NOT NULL,
			sender     TEXT    NOT NULL,
			kind       TEXT    NOT NULL,
			person     INTEGER NOT NULL,
			isolated   INTEGER NOT NULL,
			marked     INTEGER NOT NULL,
			frame      TEXT    NOT NULL,
			state      TEXT    NOT NULL,
			reason     TEXT    NOT NULL,
			at         INTEGER NOT NULL
		) STRICT;
		CREATE UNIQUE INDEX deliveries_key ON deliveries (post, key, occurrence) WHERE key<>'';
		CREATE INDEX deliveries_open ON deliveries (post) WHERE state IN ('claimed', 'written', 'accepted', 'cut');
		CREATE TABLE contents (
			seq        INTEGER PRIMARY KEY,
			mode       BLOB    NOT NULL,
			raw        BLOB    NOT NULL
		) STRICT;
		CREATE TABLE pruned (
			post       INTEGER NOT NULL,
			key        TEXT    NOT NULL,
			occurrence INTEGER NOT NULL,
			PRIMARY KEY (post, key)
		) STRICT, WITHOUT ROWID;
		CREATE TABLE frames (
			uuid       TEXT    PRIMARY KEY,
			post       INTEGER NOT NULL,
			kind       TEXT    NOT NULL,
			parent     TEXT    NOT NULL,
			session    TEXT    NOT NULL,
			state      TEXT    NOT NULL,
			reason     TEXT    NOT NULL,
			tries      INTEGER NOT NULL,
			deaths     INTEGER NOT NULL,
			nudges     INTEGER NOT NULL,
			at         INTEGER NOT NULL
		) STRICT, WITHOUT ROWID;
		CREATE UNIQUE INDEX frames_open ON frames (post, kind='nudge') WHERE state IN ('claimed', 'written', 'accepted', 'cut');
		CREATE TABLE lines (
			uuid       TEXT    PRIMARY KEY,
			line       BLOB    NOT NULL
		) STRICT, WITHOUT ROWID;
		CREATE TABLE sessions (
			post       INTEGER PRIMARY KEY,
			id         TEXT    NOT NULL,
			pid        INTEGER NOT NULL,
			process_group INTEGER NOT NULL,
			start      TEXT    NOT NULL,
			command    TEXT    NOT NULL,
			dead       TEXT    NOT NULL,
			at         INTEGER NOT NULL
		) STRICT;`,

		// What is seen of a relay from outside, and what happened, in order.
		// Triggers, so that no step can be taken without its event, and both are
		// one commit. A relay that starts is not worth one: that it runs follows.
		// The identity tells the numbers of one ledger from those of another.
		`ALTER TABLE sessions ADD COLUMN state  TEXT    NOT NULL DEFAULT '';
		ALTER TABLE sessions ADD COLUMN reason TEXT    NOT NULL DEFAULT '';
		ALTER TABLE sessions ADD COLUMN relay  INTEGER NOT NULL DEFAULT 0;
		ALTER TABLE sessions ADD COLUMN acked  INTEGER NOT NULL DEFAULT 0;
		CREATE INDEX deliveries_failed ON deliveries (post) WHERE state='failed';
		CREATE TABLE identity (
			only       INTEGER PRIMARY KEY CHECK (only = 1),
			id         TEXT    NOT NULL
		) STRICT;
		INSERT INTO identity VALUES (1, lower(hex(randomblob(16))));
		CREATE TABLE events (
			n          INTEGER PRIMARY KEY AUTOINCREMENT,
			post       INTEGER NOT NULL,
			delivery   INTEGER NOT NULL, -- its seq; 0: it is about the relay
			state      TEXT    NOT NULL,
			reason     TEXT    NOT NULL,
			pid        INTEGER NOT NULL,
			session    TEXT    NOT NULL,
			at         INTEGER NOT NULL
		) STRICT;
		CREATE INDEX events_at ON events (at);
		INSERT INTO events (post, delivery, state, reason, pid, session, at)
			SELECT post, seq, state, reason, 0, '', at FROM deliveries ORDER BY at, seq;
		CREATE TRIGGER deliveries_claimed AFTER INSERT ON deliveries BEGIN
			INSERT INTO events (post, delivery, state, reason, pid, session, at)
				VALUES (new.post, new.seq, new.state, new.reason, 0, '', new.at);
		END;
		CREATE TRIGGER deliveries_moved AFTER UPDATE OF state ON deliveries WHEN new.state<>old.state BEGIN
			INSERT INTO events (post, delivery, state, reason, pid, session, at)
				VALUES (new.post, new.seq, new.state, new.reason, 0, '', new.at);
		END;
		CREATE TRIGGER sessions_began AFTER INSERT ON sessions WHEN new.state NOT IN ('', 'starting') BEGIN
			INSERT INTO events (post, delivery, state, reason, pid, session, at)
				VALUES (new.post, 0, new.state, new.reason, new.pid, new.id, new.at);
		END;
		CREATE TRIGGER sessions_moved AFTER UPDATE OF state, id, pid ON sessions WHEN new.state NOT IN ('', 'starting')
			AND (new.state<>old.state OR new.id<>old.id OR new.pid<>old.pid) BEGIN
			INSERT INTO events (post, delivery, state, reason, pid, session, at)
				VALUES (new.post, 0, new.state, new.reason, new.pid, new.id, new.at);
		END;`,

		// What a service is told to run.
		`CREATE TABLE relays (
			id          TEXT    PRIMARY KEY,
			root        TEXT    NOT NULL,
			team        TEXT    NOT NULL,
			member      TEXT    NOT NULL,
			command     TEXT    NOT NULL, -- JSON, a list of words
			plain       INTEGER NOT NULL,
			dir         TEXT    NOT NULL,
			on_cut      TEXT    NOT NULL,
			permissions TEXT    NOT NULL,
			mode        BLOB    NOT NULL,
			created     INTEGER NOT NULL,
			UNIQUE (root, team, member)
		) STRICT, WITHOUT ROWID;`,

		// How the agent works, which is to hold over a crash of its bridge; empty in
		// what an earlier version left: see Modes.
		`ALTER TABLE sessions ADD COLUMN mode BLOB NOT NULL DEFAULT x'';`,
		// How a person's words are shown; the agent is not told.
		`ALTER TABLE deliveries ADD COLUMN summary TEXT NOT NULL DEFAULT '';
		ALTER TABLE deliveries ADD COLUMN color TEXT NOT NULL DEFAULT '';`,

		// Teams that were made for headless agents: which instance, and which processes
		// of ours may stand in it as its leader. A relay can have such a team.
		`CREATE TABLE foundings (
			root       TEXT    NOT NULL,
			team       TEXT    NOT NULL,
			created_at INTEGER NOT NULL,
			lead       TEXT    NOT NULL,
			session    TEXT    NOT NULL,
			leaders    TEXT    NOT NULL, -- JSON, a list of words
			doomed     INTEGER NOT NULL,
			at         INTEGER NOT NULL,
			PRIMARY KEY (root, team, created_at)
		) STRICT, WITHOUT ROWID;
		ALTER TABLE relays ADD COLUMN own_team INTEGER NOT NULL DEFAULT 0;`,

		// See Epoch. The identity of an earlier version becomes its first epoch, so
		// that events that were copied under it are not copied again.
		`CREATE TABLE epochs (
			first      INTEGER PRIMARY KEY, -- number of an event
			id         TEXT    NOT NULL
		) STRICT;
		INSERT INTO epochs SELECT 1, id FROM identity WHERE EXISTS (SELECT 1 FROM events);
		DROP TABLE identity;`,

		// Whether a row was delivered before is asked by the id of its message.
		`CREATE INDEX deliveries_id ON deliveries (post, id);`,

		// What was sent, and what agents answered: see message.go. The text is apart
		// from the row of sends, which changes state.
		`CREATE TABLE messages (
			message    INTEGER PRIMARY KEY,
			post       INTEGER NOT NULL,
			frame      TEXT    NOT NULL, -- whose answer it is; '': it was sent
			at         INTEGER NOT NULL,
			raw        BLOB    NOT NULL
		) STRICT;
		CREATE UNIQUE INDEX messages_frame ON messages (frame) WHERE frame<>'';
		CREATE TABLE pending ( -- messages that have no event yet
			message    INTEGER PRIMARY KEY,
			state      TEXT    NOT NULL,
			at         INTEGER NOT NULL
		) STRICT;
		ALTER TABLE sends ADD COLUMN message INTEGER NOT NULL DEFAULT 0;
		ALTER TABLE events ADD COLUMN message INTEGER NOT NULL DEFAULT 0;
		CREATE INDEX events_message ON events (message) WHERE message<>0;`,

		// Agents that answer each other: see Exchanges. Deliveries of earlier versions
		// were not counted.
		`ALTER TABLE deliveries ADD COLUMN hops    INTEGER NOT NULL DEFAULT 0;
		ALTER TABLE deliveries ADD COLUMN claimed INTEGER NOT NULL DEFAULT 0;
		CREATE INDEX deliveries_sender ON deliveries (post, sender);
		CREATE TABLE holds (
			post       INTEGER NOT NULL,
			sender     TEXT    NOT NULL,
			held       INTEGER NOT NULL, -- 0: it was released
			reason     TEXT    NOT NULL,
			at         INTEGER NOT NULL,
			after      INTEGER NOT NULL, -- deliveries up to this seq are not counted any more
			PRIMARY KEY (post, sender)
		) STRICT, WITHOUT ROWID;
		CREATE TABLE answers (
			post       INTEGER NOT NULL, -- whose agent has written
			recipient  TEXT    NOT NULL,
			seq        INTEGER NOT NULL, -- the last delivery before that
			PRIMARY KEY (post, recipient)
		) STRICT, WITHOUT ROWID;
		ALTER TABLE relays ADD COLUMN idle_exit INTEGER NOT NULL DEFAULT 0; -- microseconds
		CREATE TRIGGER holds_began AFTER INSERT ON holds WHEN new.held<>0 BEGIN
			INSERT INTO events (post, delivery, state, reason, pid, session, at)
				VALUES (new.post, 0, 'held', new.reason, 0, '', new.at);
		END;
		CREATE TRIGGER holds_moved AFTER UPDATE OF held ON holds WHEN new.held<>old.held BEGIN
			INSERT INTO events (post, delivery, state, reason, pid, session, at)
				VALUES (new.post, 0, iif(new.held, 'held', 'released'), new.reason, 0, '', new.at);
		END;`,
	}
}

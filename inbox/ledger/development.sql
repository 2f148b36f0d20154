-- The ledger: versions before those of schema.sql, which have another application_id. The first
-- one is not made any more, so only what changed after it is here.

-- next version

-- What a relay has taken out of an inbox, and how far it came.
CREATE TABLE posts (
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
) STRICT;

-- next version

-- The state of relays, and events.
ALTER TABLE sessions ADD COLUMN state  TEXT    NOT NULL DEFAULT '';
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
END;

-- next version

-- Relays that a service runs.
CREATE TABLE relays (
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
) STRICT, WITHOUT ROWID;

-- next version

-- How an agent works.
ALTER TABLE sessions ADD COLUMN mode BLOB NOT NULL DEFAULT x'';

-- next version

-- How a prompt is shown.
ALTER TABLE deliveries ADD COLUMN summary TEXT NOT NULL DEFAULT '';
ALTER TABLE deliveries ADD COLUMN color TEXT NOT NULL DEFAULT '';

-- next version

-- Teams that were made for headless agents.
CREATE TABLE foundings (
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
ALTER TABLE relays ADD COLUMN own_team INTEGER NOT NULL DEFAULT 0;

-- next version

-- The identity of a ledger becomes its first epoch, so that events that were copied under
-- it are not copied again.
CREATE TABLE epochs (
	first      INTEGER PRIMARY KEY, -- number of an event
	id         TEXT    NOT NULL
) STRICT;
INSERT INTO epochs SELECT 1, id FROM identity WHERE EXISTS (SELECT 1 FROM events);
DROP TABLE identity;

-- next version

-- Deliveries are found by the id of their message.
CREATE INDEX deliveries_id ON deliveries (post, id);

-- next version

-- The rows that were sent, and what agents answered.
CREATE TABLE messages (
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
CREATE INDEX events_message ON events (message) WHERE message<>0;

-- next version

-- Agents that answer each other. Earlier deliveries were not counted.
ALTER TABLE deliveries ADD COLUMN hops    INTEGER NOT NULL DEFAULT 0;
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
END;

-- next version

-- Version 1 of schema.sql has other names.
ALTER TABLE posts RENAME TO inboxes;
ALTER TABLE answers RENAME TO replies;
ALTER TABLE foundings RENAME TO owned_teams;
ALTER TABLE owned_teams RENAME COLUMN doomed TO pending_delete;
ALTER TABLE deliveries RENAME COLUMN claimed TO claimed_at;
ALTER TABLE inboxes RENAME COLUMN post TO inbox_id;
ALTER TABLE deliveries RENAME COLUMN post TO inbox_id;
ALTER TABLE pruned RENAME COLUMN post TO inbox_id;
ALTER TABLE frames RENAME COLUMN post TO inbox_id;
ALTER TABLE sessions RENAME COLUMN post TO inbox_id;
ALTER TABLE holds RENAME COLUMN post TO inbox_id;
ALTER TABLE replies RENAME COLUMN post TO inbox_id;
ALTER TABLE messages RENAME COLUMN post TO inbox_id;
ALTER TABLE events RENAME COLUMN post TO inbox_id;

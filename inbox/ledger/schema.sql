-- The ledger, schema version 1. Times are microseconds since 1970, unless said
-- otherwise; created_at is the age of a team in milliseconds, as config.json has it.
-- The tables that a send writes have no rowid, so that a row is in one tree and a commit
-- mostly writes one page.

-- Messages that were sent, by their ids.
CREATE TABLE sends (
	root       TEXT    NOT NULL, -- real path of the Claude root
	team       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	inbox      TEXT    NOT NULL,
	id         TEXT    NOT NULL,
	digest     BLOB    NOT NULL,
	before     TEXT    NOT NULL, -- state of the file when the message was about to be written
	state      TEXT    NOT NULL, -- intent, written
	at         INTEGER NOT NULL,
	message    INTEGER NOT NULL DEFAULT 0, -- 0: its text is not kept
	PRIMARY KEY (root, team, created_at, inbox, id)
) STRICT, WITHOUT ROWID;

-- Names under which we joined teams.
CREATE TABLE joins (
	root       TEXT    NOT NULL,
	team       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	member     TEXT    NOT NULL,
	agent_id   TEXT    NOT NULL,
	at         INTEGER NOT NULL,
	PRIMARY KEY (root, team, created_at, member)
) STRICT, WITHOUT ROWID;

-- Teams that we made for headless agents.
CREATE TABLE owned_teams (
	root           TEXT    NOT NULL,
	team           TEXT    NOT NULL,
	created_at     INTEGER NOT NULL,
	lead           TEXT    NOT NULL,
	session        TEXT    NOT NULL,
	leaders        TEXT    NOT NULL, -- JSON, a list of strings
	pending_delete INTEGER NOT NULL,
	at             INTEGER NOT NULL,
	PRIMARY KEY (root, team, created_at)
) STRICT, WITHOUT ROWID;

-- Relays that a service is told to run.
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
	idle_exit   INTEGER NOT NULL, -- microseconds
	own_team    INTEGER NOT NULL,
	created     INTEGER NOT NULL,
	UNIQUE (root, team, member)
) STRICT, WITHOUT ROWID;

-- Inboxes that are relayed, or that something was sent to.
CREATE TABLE inboxes (
	inbox_id   INTEGER PRIMARY KEY,
	root       TEXT    NOT NULL,
	team       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	inbox      TEXT    NOT NULL,
	UNIQUE (root, team, created_at, inbox)
) STRICT;

-- Rows and user prompts on their way to agents. AUTOINCREMENT: the number of a
-- delivery that was pruned is not used again.
CREATE TABLE deliveries (
	seq        INTEGER PRIMARY KEY AUTOINCREMENT,
	uuid       TEXT    NOT NULL UNIQUE,
	inbox_id   INTEGER NOT NULL,
	key        TEXT    NOT NULL, -- of the row; '' for a user prompt
	occurrence INTEGER NOT NULL,
	id         TEXT    NOT NULL,
	sender     TEXT    NOT NULL,
	kind       TEXT    NOT NULL,
	summary    TEXT    NOT NULL,
	color      TEXT    NOT NULL,
	person     INTEGER NOT NULL,
	isolated   INTEGER NOT NULL,
	hops       INTEGER NOT NULL,
	marked     INTEGER NOT NULL,
	frame      TEXT    NOT NULL,
	state      TEXT    NOT NULL,
	reason     TEXT    NOT NULL,
	claimed_at INTEGER NOT NULL,
	at         INTEGER NOT NULL  -- of the last change
) STRICT;
-- A row of an inbox is one delivery.
CREATE UNIQUE INDEX deliveries_key ON deliveries (inbox_id, key, occurrence) WHERE key<>'';
-- The conditions on states are worded as in the queries, or SQLite would not use the index.
CREATE INDEX deliveries_open ON deliveries (inbox_id) WHERE state IN ('claimed', 'written', 'accepted', 'cut');
CREATE INDEX deliveries_failed ON deliveries (inbox_id) WHERE state='failed';
CREATE INDEX deliveries_id ON deliveries (inbox_id, id);
CREATE INDEX deliveries_sender ON deliveries (inbox_id, sender);

-- What is long is apart from the row that changes, which is written with each state.
CREATE TABLE contents (
	seq        INTEGER PRIMARY KEY, -- of the delivery
	mode       BLOB    NOT NULL,
	raw        BLOB    NOT NULL
) STRICT;

-- How many rows with a key were pruned.
CREATE TABLE pruned (
	inbox_id   INTEGER NOT NULL,
	key        TEXT    NOT NULL,
	occurrence INTEGER NOT NULL,
	PRIMARY KEY (inbox_id, key)
) STRICT, WITHOUT ROWID;

-- Lines to agents.
CREATE TABLE frames (
	uuid       TEXT    PRIMARY KEY,
	inbox_id   INTEGER NOT NULL,
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
-- An inbox has one frame in flight, and one nudge about it.
CREATE UNIQUE INDEX frames_open ON frames (inbox_id, kind='nudge') WHERE state IN ('claimed', 'written', 'accepted', 'cut');
CREATE TABLE lines (
	uuid       TEXT    PRIMARY KEY, -- of the frame
	line       BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- The agents behind the inboxes, and what their relays say of themselves.
CREATE TABLE sessions (
	inbox_id      INTEGER PRIMARY KEY,
	id            TEXT    NOT NULL,
	pid           INTEGER NOT NULL,
	process_group INTEGER NOT NULL,
	start         TEXT    NOT NULL,
	command       TEXT    NOT NULL,
	dead          TEXT    NOT NULL,
	mode          BLOB    NOT NULL,
	state         TEXT    NOT NULL,
	reason        TEXT    NOT NULL,
	relay         INTEGER NOT NULL, -- process id
	acked         INTEGER NOT NULL DEFAULT 0,
	at            INTEGER NOT NULL
) STRICT;

-- Agents that answer each other: see Exchanges.
CREATE TABLE holds (
	inbox_id   INTEGER NOT NULL,
	sender     TEXT    NOT NULL,
	held       INTEGER NOT NULL, -- 0: it was released
	reason     TEXT    NOT NULL,
	at         INTEGER NOT NULL,
	after      INTEGER NOT NULL, -- deliveries up to this seq are not counted any more
	PRIMARY KEY (inbox_id, sender)
) STRICT, WITHOUT ROWID;
CREATE TABLE replies (
	inbox_id   INTEGER NOT NULL, -- whose agent has written
	recipient  TEXT    NOT NULL,
	seq        INTEGER NOT NULL, -- the last delivery before that
	PRIMARY KEY (inbox_id, recipient)
) STRICT, WITHOUT ROWID;

-- The rows that were sent, and what agents answered: see message.go.
CREATE TABLE messages (
	message    INTEGER PRIMARY KEY,
	inbox_id   INTEGER NOT NULL,
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

-- What happened, in order. Triggers write the events, so that no step can be taken
-- without its event, and both are one commit. A relay that starts is not worth an event:
-- that it runs follows.
CREATE TABLE events (
	n          INTEGER PRIMARY KEY AUTOINCREMENT,
	inbox_id   INTEGER NOT NULL,
	delivery   INTEGER NOT NULL, -- its seq; 0: it is about the relay or a message
	message    INTEGER NOT NULL DEFAULT 0,
	state      TEXT    NOT NULL,
	reason     TEXT    NOT NULL,
	pid        INTEGER NOT NULL,
	session    TEXT    NOT NULL,
	at         INTEGER NOT NULL
) STRICT;
CREATE INDEX events_at ON events (at);
CREATE INDEX events_message ON events (message) WHERE message<>0;
CREATE TABLE epochs (
	first      INTEGER PRIMARY KEY, -- number of an event
	id         TEXT    NOT NULL
) STRICT;
CREATE TRIGGER deliveries_claimed AFTER INSERT ON deliveries BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		VALUES (new.inbox_id, new.seq, new.state, new.reason, 0, '', new.at);
END;
CREATE TRIGGER deliveries_moved AFTER UPDATE OF state ON deliveries WHEN new.state<>old.state BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		VALUES (new.inbox_id, new.seq, new.state, new.reason, 0, '', new.at);
END;
CREATE TRIGGER sessions_began AFTER INSERT ON sessions WHEN new.state NOT IN ('', 'starting') BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		VALUES (new.inbox_id, 0, new.state, new.reason, new.pid, new.id, new.at);
END;
CREATE TRIGGER sessions_moved AFTER UPDATE OF state, id, pid ON sessions WHEN new.state NOT IN ('', 'starting')
	AND (new.state<>old.state OR new.id<>old.id OR new.pid<>old.pid) BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		VALUES (new.inbox_id, 0, new.state, new.reason, new.pid, new.id, new.at);
END;
CREATE TRIGGER holds_began AFTER INSERT ON holds WHEN new.held<>0 BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		VALUES (new.inbox_id, 0, 'held', new.reason, 0, '', new.at);
END;
CREATE TRIGGER holds_moved AFTER UPDATE OF held ON holds WHEN new.held<>old.held BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		VALUES (new.inbox_id, 0, iif(new.held, 'held', 'released'), new.reason, 0, '', new.at);
END;

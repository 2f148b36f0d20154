-- The journal: versions before those of schema.sql, which have another application_id. The first
-- one is not made any more, so only what changed after it is here.

-- next version

-- What happened to relays and deliveries.
CREATE TABLE relays (
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
) STRICT, WITHOUT ROWID;

-- next version

-- Messages that are user prompts.
CREATE TABLE said (
	message    INTEGER PRIMARY KEY REFERENCES messages,
	delivery   TEXT    NOT NULL UNIQUE
) STRICT;

-- next version

-- Rows in front of a sent message.
ALTER TABLE receipts ADD COLUMN ahead TEXT;

-- next version

-- The first epoch has all earlier numbers.
CREATE TABLE epochs (
	first      INTEGER PRIMARY KEY,
	id         TEXT    NOT NULL
) STRICT;
INSERT INTO epochs VALUES (0, lower(hex(randomblob(8))));

-- next version

-- Messages that are answers.
CREATE TABLE answers (
	message    INTEGER PRIMARY KEY REFERENCES messages,
	frame      TEXT    NOT NULL UNIQUE
) STRICT;

-- next version

-- Version 1 of schema.sql has other names, and messages are not put back.
ALTER TABLE said RENAME TO prompts;
ALTER TABLE relays RENAME TO relay_events;
DROP INDEX relays_at;
DROP INDEX relays_id;
CREATE INDEX relay_events_at ON relay_events (at);
CREATE INDEX relay_events_id ON relay_events (id) WHERE id<>'';
ALTER TABLE receipts DROP COLUMN back_at;
ALTER TABLE receipts DROP COLUMN put_backs;

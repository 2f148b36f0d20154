-- The journal. Each seq is from the one counter. Times are
-- microseconds since 1970; created_at is the age of a team in milliseconds, as
-- config.json has it.

CREATE TABLE counter (
	only   INTEGER PRIMARY KEY CHECK (only = 1),
	seq    INTEGER NOT NULL, -- the last one given
	pruned INTEGER NOT NULL, -- the highest one that was deleted
	copied    INTEGER NOT NULL, -- the number of the last event that was copied from the ledger
	copied_at INTEGER NOT NULL  -- and its time
) STRICT;
INSERT INTO counter VALUES (1, 0, 0, 0, 0);

-- See Position.
CREATE TABLE epochs (
	first INTEGER PRIMARY KEY,
	id    TEXT    NOT NULL
) STRICT;
INSERT INTO epochs VALUES (0, lower(hex(randomblob(8))));

CREATE TABLE inboxes (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	root       TEXT    NOT NULL, -- real path of the Claude root
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
	prompt     TEXT    NOT NULL, -- the delivery, if it is a user prompt; it never was in an inbox file, nor was an answer
	answer     TEXT    NOT NULL, -- the frame, if it is the answer to one
	raw        BLOB    NOT NULL -- last: nothing else is to be looked for behind it
) STRICT;
CREATE UNIQUE INDEX messages_key ON messages (inbox, digest, occurrence);
CREATE INDEX messages_inbox ON messages (inbox);
CREATE INDEX messages_id ON messages (id);
CREATE UNIQUE INDEX messages_prompt ON messages (prompt) WHERE prompt<>'';
CREATE UNIQUE INDEX messages_answer ON messages (answer) WHERE answer<>'';
CREATE INDEX messages_present ON messages (inbox, digest, read_at) WHERE gone_at IS NULL;
CREATE INDEX messages_gone ON messages (gone_at) WHERE gone_at IS NOT NULL;

-- Messages and envelopes that were deleted, or have another sender, since the search index has them: see update.
CREATE TABLE stale (
	n   INTEGER PRIMARY KEY AUTOINCREMENT,
	seq INTEGER NOT NULL
) STRICT;

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
	reason      TEXT    NOT NULL,
	at          INTEGER NOT NULL, -- of the last change
	verified_at INTEGER,
	consumed_at INTEGER,
	lost_at     INTEGER,
	ahead       TEXT, -- keys of the unread rows in front of the message, separated by spaces
	seen_at     INTEGER, -- when it was seen in its recipient's transcript
	UNIQUE (root, team, created_at, inbox, id)
) STRICT;
CREATE INDEX receipts_at ON receipts (at);
-- Those that wait for a person are found without reading all.
CREATE INDEX receipts_lost ON receipts (root, team, created_at) WHERE state IN ('lost', 'unknown');

-- What happened to relays and deliveries, copied from the ledger. An event is known by its time and its number there.
CREATE TABLE relay_events (
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
CREATE INDEX relay_events_at ON relay_events (at);
CREATE INDEX relay_events_id ON relay_events (id) WHERE id<>'';

-- What agents say and do.
CREATE TABLE envelopes (
	seq      INTEGER PRIMARY KEY,
	inbox    INTEGER NOT NULL REFERENCES inboxes, -- of the agent
	id       TEXT    NOT NULL,
	at       INTEGER NOT NULL,
	session  TEXT    NOT NULL,
	turn     TEXT    NOT NULL, -- '': none, like the next two
	call     TEXT    NOT NULL,
	subagent TEXT    NOT NULL,
	kind     TEXT    NOT NULL,
	role     TEXT    NOT NULL,
	raw      BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX envelopes_id ON envelopes (inbox, id);
CREATE INDEX envelopes_inbox ON envelopes (inbox);
CREATE INDEX envelopes_session ON envelopes (inbox, session, at);
CREATE INDEX envelopes_turn ON envelopes (turn) WHERE turn<>'';
CREATE INDEX envelopes_call ON envelopes (call) WHERE call<>'';
CREATE INDEX envelopes_at ON envelopes (at);

-- Up to which time the envelopes of a session were pruned, so that they are not recorded
-- again when its transcript is read again.
CREATE TABLE pruned_sessions (
	inbox   INTEGER NOT NULL REFERENCES inboxes,
	session TEXT    NOT NULL,
	at      INTEGER NOT NULL,
	PRIMARY KEY (inbox, session)
) STRICT, WITHOUT ROWID;

-- Tasks of Claude Code, and what became of them.
CREATE TABLE task_recordings (
	root  TEXT    PRIMARY KEY,
	began INTEGER NOT NULL, -- when they were looked at first
	until INTEGER NOT NULL  -- up to when all changes are known
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks ( -- as they were seen last
	id         INTEGER PRIMARY KEY,
	root       TEXT    NOT NULL,
	list       TEXT    NOT NULL,
	task       TEXT    NOT NULL,
	subject    TEXT    NOT NULL,
	status     TEXT    NOT NULL,
	owner      TEXT    NOT NULL,
	blocked_by TEXT    NOT NULL, -- ids, with ", " between them
	changed    INTEGER NOT NULL  -- when its file was written
) STRICT;
CREATE UNIQUE INDEX tasks_key ON tasks (root, list, task);

CREATE TABLE task_changes (
	seq     INTEGER PRIMARY KEY AUTOINCREMENT, -- not of the counter
	root    TEXT    NOT NULL,
	list    TEXT    NOT NULL,
	task    TEXT    NOT NULL,
	subject TEXT    NOT NULL,
	what    TEXT    NOT NULL,
	was     TEXT    NOT NULL,
	now     TEXT    NOT NULL,
	after   INTEGER, -- it was after this time, if it is not known exactly
	at      INTEGER NOT NULL
) STRICT;
CREATE INDEX task_changes_task ON task_changes (root, list, task);
CREATE INDEX task_changes_at ON task_changes (at);

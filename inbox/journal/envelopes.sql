-- The journal, schema version 2: what agents say and do, and when a message of ours was
-- seen in its recipient's transcript.

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

ALTER TABLE receipts ADD COLUMN seen_at INTEGER;

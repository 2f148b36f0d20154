-- The ledger: sessions that move between a person's terminal and a relay.

CREATE TABLE handoffs (
	inbox_id   INTEGER PRIMARY KEY,
	place      TEXT    NOT NULL, -- where the session is: local or remote
	target     TEXT    NOT NULL, -- where it is going; '': it stays
	hold       TEXT    NOT NULL, -- why it has not gone yet
	since      INTEGER NOT NULL,
	draft      BLOB    NOT NULL,
	typed      INTEGER NOT NULL, -- 0: unknown
	returned   INTEGER NOT NULL, -- seq of a delivery
	wanted     TEXT    NOT NULL DEFAULT '', -- by another process; '': nothing
	force      INTEGER NOT NULL DEFAULT 0,
	wish       INTEGER NOT NULL DEFAULT 0, -- number of the last wish
	answered   INTEGER NOT NULL DEFAULT 0, -- number of the last wish that was granted or refused
	refused    TEXT    NOT NULL DEFAULT ''  -- why that one was refused
) STRICT;

CREATE TABLE owned_members (
	root           TEXT    NOT NULL,
	team           TEXT    NOT NULL,
	created_at     INTEGER NOT NULL,
	member         TEXT    NOT NULL,
	agent_id       TEXT    NOT NULL,
	joined_at      INTEGER NOT NULL,
	pending_delete INTEGER NOT NULL,
	PRIMARY KEY (root, team, created_at, member)
) STRICT;

-- The ledger, schema version 12: links with other machines.

-- What this ledger is for others.
CREATE TABLE link (
	only        INTEGER PRIMARY KEY CHECK (only=1),
	name        TEXT    NOT NULL, -- of this machine
	hub         TEXT    NOT NULL, -- its address; '': none yet
	trust       TEXT    NOT NULL, -- how its certificate is checked
	incarnation TEXT    NOT NULL, -- random
	queue       TEXT    NOT NULL  -- what the hub's queue for this machine was called last; ''
) STRICT;

CREATE TABLE machines (
	machine     TEXT    PRIMARY KEY,
	card        TEXT    NOT NULL,
	incarnation TEXT    NOT NULL, -- of its ledger, as it said last; ''
	presence    BLOB    NOT NULL, -- what it said of itself last
	heard       INTEGER NOT NULL, -- when; 0: never
	horizon     INTEGER NOT NULL, -- the newest time, by its clock, of what was forgotten of it
	at          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The teams that a machine may write to.
CREATE TABLE shares (
	machine     TEXT    NOT NULL,
	root        TEXT    NOT NULL,
	team        TEXT    NOT NULL,
	PRIMARY KEY (machine, root, team)
) STRICT, WITHOUT ROWID;

-- The outbox: what a delivery has besides, if it is to another machine.
CREATE TABLE outgoing (
	seq         INTEGER PRIMARY KEY, -- of the delivery
	machine     TEXT    NOT NULL,
	team        TEXT    NOT NULL, -- there
	member      TEXT    NOT NULL,
	stage       TEXT    NOT NULL,
	at          INTEGER NOT NULL, -- when it came to it
	since       INTEGER NOT NULL, -- when it was put here
	tried       INTEGER NOT NULL, -- it was given to the hub, whether or not that has it
	reach       TEXT    NOT NULL  -- why nobody will read it there; ''
) STRICT;
CREATE INDEX outgoing_queued ON outgoing (machine, seq) WHERE stage='queued';
CREATE INDEX outgoing_stored ON outgoing (machine, seq) WHERE stage='stored';
CREATE INDEX outgoing_open   ON outgoing (machine, seq) WHERE stage IN ('received', 'verified', 'consumed');
CREATE TRIGGER outgoing_told AFTER UPDATE OF stage ON outgoing WHEN new.stage<>old.stage AND new.stage IN ('consumed', 'seen') BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		SELECT inbox_id, new.seq, new.stage, '', 0, '', new.at FROM deliveries WHERE seq=new.seq;
END;
CREATE TRIGGER outgoing_dropped AFTER UPDATE OF state ON deliveries WHEN new.state='dropped' BEGIN
	UPDATE outgoing SET stage='dropped', at=new.at WHERE seq=new.seq;
END;
CREATE TRIGGER outgoing_retried AFTER UPDATE OF state ON deliveries WHEN new.state='claimed' BEGIN
	UPDATE outgoing SET stage='queued', at=new.at, since=new.at, tried=0 WHERE seq=new.seq;
END;
CREATE TRIGGER outgoing_forgotten AFTER DELETE ON deliveries BEGIN
	DELETE FROM outgoing WHERE seq=old.seq;
END;

-- What came from other machines. It is what a receipt stands for.
CREATE TABLE incoming (
	n           INTEGER PRIMARY KEY AUTOINCREMENT,
	machine     TEXT    NOT NULL,
	team        TEXT    NOT NULL,
	member      TEXT    NOT NULL,
	id          TEXT    NOT NULL, -- there
	digest      BLOB    NOT NULL,
	sender      TEXT    NOT NULL,
	raw         BLOB    NOT NULL, -- its text and what else it says; empty once it was delivered, and answered
	asks        INTEGER NOT NULL, -- it waits for an answer
	sent        INTEGER NOT NULL, -- by the clock of the machine
	stage       TEXT    NOT NULL,
	reason      TEXT    NOT NULL,
	reach       TEXT    NOT NULL,
	root        TEXT    NOT NULL, -- where it was put
	recipient   TEXT    NOT NULL,
	delivery    TEXT    NOT NULL,
	told        TEXT    NOT NULL, -- the stage of the last receipt
	at          INTEGER NOT NULL,
	UNIQUE (machine, team, member, id)
) STRICT;
CREATE INDEX incoming_received ON incoming (n) WHERE stage='received';
CREATE INDEX incoming_open ON incoming (n) WHERE stage IN ('verified', 'consumed');
CREATE INDEX incoming_id ON incoming (machine, id);
CREATE INDEX incoming_asks ON incoming (n) WHERE asks<>0;
CREATE INDEX incoming_untold ON incoming (machine, n) WHERE told<>stage;

-- Entries of teams that stand for members on other machines.
CREATE TABLE standins (
	root        TEXT    NOT NULL,
	team        TEXT    NOT NULL,
	created_at  INTEGER NOT NULL,
	member      TEXT    NOT NULL, -- the entry
	machine     TEXT    NOT NULL,
	there       TEXT    NOT NULL, -- MEMBER@TEAM on the machine
	agent_id    TEXT    NOT NULL, -- as config.json has it
	joined_at   INTEGER NOT NULL,
	used        INTEGER NOT NULL,
	PRIMARY KEY (root, team, created_at, member)
) STRICT, WITHOUT ROWID;

-- The ledger. Times are microseconds since 1970, unless said otherwise; created_at is the age of a team in milliseconds, as config.json has it.
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

-- Headless agents that we made members of these teams.
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
	runtime       TEXT  NOT NULL DEFAULT '', -- '': Claude Code
	profile       TEXT  NOT NULL DEFAULT '',
	url           TEXT  NOT NULL DEFAULT '', -- of a server that runs already
	password_file TEXT  NOT NULL DEFAULT '',
	idle_reports  TEXT  NOT NULL DEFAULT '', -- which reports of idle agents it delivers
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
	at            INTEGER NOT NULL,
	answers       INTEGER NOT NULL DEFAULT 0, -- the relay sends the agent's answers
	shut_down       TEXT  NOT NULL DEFAULT '', -- why the agent was ended for good
	permission_mode TEXT  NOT NULL DEFAULT ''  -- what the agent last reported; its session forgets it when it is started again
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
CREATE TABLE pending ( -- messages of which it is not known whether they were written, and that have no event
	message    INTEGER PRIMARY KEY,
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

-- Frames that have ended and whose answers were not sent yet, in the order in which they
-- ended. The trigger makes it one commit with the end.
CREATE TABLE owed (
	n     INTEGER PRIMARY KEY,
	frame TEXT    NOT NULL UNIQUE
) STRICT;
CREATE INDEX frames_parent ON frames (parent) WHERE parent<>'';
CREATE TRIGGER frames_ended AFTER UPDATE OF state ON frames
	WHEN new.state IN ('done', 'failed', 'cancelled') AND old.state NOT IN ('done', 'failed', 'cancelled') AND new.kind<>'nudge'
	AND EXISTS (SELECT 1 FROM sessions WHERE inbox_id=new.inbox_id AND answers<>0) BEGIN
	INSERT INTO owed (frame) VALUES (new.uuid);
END;

-- What waits for a person and was dismissed.
CREATE TABLE dismissed (
	root       TEXT    NOT NULL,
	id         TEXT    NOT NULL, -- of what waits
	at         INTEGER NOT NULL,
	PRIMARY KEY (root, id)
) STRICT, WITHOUT ROWID;

-- Terminal panes. Sessions of Claude Code that are reached through their own sockets are panes
-- of the team "sessions". Of one, socket is its own, server is 0, pane is the id of its
-- session, and pid and start are its process.
CREATE TABLE panes (
	inbox_id   INTEGER PRIMARY KEY,
	socket     TEXT    NOT NULL, -- of the tmux server
	server     INTEGER NOT NULL, -- pid of the tmux server
	pane       TEXT    NOT NULL, -- such as %12
	pid        INTEGER NOT NULL, -- of the first process in the pane
	profile    TEXT    NOT NULL,
	at         INTEGER NOT NULL,
	start      TEXT    NOT NULL DEFAULT '',
	cwd        TEXT    NOT NULL DEFAULT '',
	home       TEXT    NOT NULL DEFAULT ''
) STRICT;

-- A message to a pane is a user prompt; this is what it has besides.
CREATE TABLE pane_messages (
	seq        INTEGER PRIMARY KEY, -- of the delivery
	policy     TEXT    NOT NULL,
	save_draft INTEGER NOT NULL,
	notify     INTEGER NOT NULL,
	notify_to  INTEGER NOT NULL, -- inbox_id; 0: the person
	since      INTEGER NOT NULL, -- when it began to wait
	tries      INTEGER NOT NULL,
	next_try   INTEGER NOT NULL,
	held       TEXT    NOT NULL, -- why the last try did not send it; '': it was not tried
	detail     TEXT    NOT NULL, -- the same in words
	held_since INTEGER NOT NULL, -- since when for this reason
	sent_at    INTEGER NOT NULL, -- when it was pasted; 0: not yet
	transcript TEXT    NOT NULL, -- path of the file that has it; '': unknown
	task       TEXT    NOT NULL, -- '': not confirmed
	task_at    INTEGER NOT NULL,
	lost       TEXT    NOT NULL, -- why the end of the task could not be seen; '': it was
	notified   INTEGER NOT NULL,
	answer     INTEGER NOT NULL  -- number of the message; 0: none
) STRICT;
CREATE INDEX pane_messages_task ON pane_messages (task) WHERE task IN ('sent', 'given', 'staged', 'armed');
CREATE INDEX pane_messages_notify ON pane_messages (seq) WHERE notify<>0 AND notified=0 AND task='ended';
-- Events of messages to panes, besides those of their deliveries: held, when something else holds one,
-- given, when the agent's transcript shows that it was given one, and finished, when it was
-- seen that the task of one ended.
CREATE TRIGGER pane_messages_held AFTER UPDATE OF held ON pane_messages WHEN new.held<>old.held AND new.held<>'' BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		SELECT inbox_id, new.seq, 'held', new.detail, 0, '', new.held_since FROM deliveries WHERE seq=new.seq;
END;
CREATE TRIGGER pane_messages_task AFTER UPDATE OF task ON pane_messages
	WHEN new.task<>old.task AND (new.task='given' OR new.task='ended' AND new.lost='') BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		SELECT inbox_id, new.seq, iif(new.task='given', 'given', 'finished'), '', 0, '', new.task_at FROM deliveries WHERE seq=new.seq;
END;

-- Sessions that move between a person's terminal and a relay.
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

-- Messages to the person, in inboxes that are no files.
CREATE TABLE said (
	message    INTEGER PRIMARY KEY, -- of messages
	sender     TEXT    NOT NULL,
	read_at    INTEGER NOT NULL     -- 0: it is unread
) STRICT;
CREATE INDEX said_unread ON said (sender) WHERE read_at=0;
CREATE TRIGGER said_forgotten AFTER DELETE ON messages BEGIN
	DELETE FROM said WHERE message=old.message;
END;
CREATE TRIGGER said_emptied AFTER UPDATE OF raw ON messages WHEN new.raw=x'' BEGIN
	DELETE FROM said WHERE message=new.message;
END;

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

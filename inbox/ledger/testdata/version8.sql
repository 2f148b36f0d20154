-- A ledger as commit 059a4f0 made it: version 8.

BEGIN;
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
CREATE TABLE joins (
	root       TEXT    NOT NULL,
	team       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	member     TEXT    NOT NULL,
	agent_id   TEXT    NOT NULL,
	at         INTEGER NOT NULL,
	PRIMARY KEY (root, team, created_at, member)
) STRICT, WITHOUT ROWID;
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
	created     INTEGER NOT NULL, runtime TEXT NOT NULL DEFAULT '', profile TEXT NOT NULL DEFAULT '', url TEXT NOT NULL DEFAULT '', password_file TEXT NOT NULL DEFAULT '',
	UNIQUE (root, team, member)
) STRICT, WITHOUT ROWID;
CREATE TABLE inboxes (
	inbox_id   INTEGER PRIMARY KEY,
	root       TEXT    NOT NULL,
	team       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	inbox      TEXT    NOT NULL,
	UNIQUE (root, team, created_at, inbox)
) STRICT;
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
CREATE TABLE contents (
	seq        INTEGER PRIMARY KEY, -- of the delivery
	mode       BLOB    NOT NULL,
	raw        BLOB    NOT NULL
) STRICT;
CREATE TABLE pruned (
	inbox_id   INTEGER NOT NULL,
	key        TEXT    NOT NULL,
	occurrence INTEGER NOT NULL,
	PRIMARY KEY (inbox_id, key)
) STRICT, WITHOUT ROWID;
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
CREATE TABLE lines (
	uuid       TEXT    PRIMARY KEY, -- of the frame
	line       BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
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
, answers   INTEGER NOT NULL DEFAULT 0, shut_down TEXT    NOT NULL DEFAULT '') STRICT;
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
CREATE TABLE messages (
	message    INTEGER PRIMARY KEY,
	inbox_id   INTEGER NOT NULL,
	frame      TEXT    NOT NULL, -- whose answer it is; '': it was sent
	at         INTEGER NOT NULL,
	raw        BLOB    NOT NULL
) STRICT;
CREATE TABLE pending ( -- messages that have no event yet
	message    INTEGER PRIMARY KEY,
	state      TEXT    NOT NULL,
	at         INTEGER NOT NULL
) STRICT;
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
CREATE TABLE epochs (
	first      INTEGER PRIMARY KEY, -- number of an event
	id         TEXT    NOT NULL
) STRICT;
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
CREATE TABLE dismissed (
	root       TEXT    NOT NULL,
	id         TEXT    NOT NULL, -- of what waits
	at         INTEGER NOT NULL,
	PRIMARY KEY (root, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE panes (
	inbox_id   INTEGER PRIMARY KEY,
	socket     TEXT    NOT NULL, -- of the tmux server
	server     INTEGER NOT NULL, -- pid of the tmux server
	pane       TEXT    NOT NULL, -- such as %12
	pid        INTEGER NOT NULL, -- of the first process in the pane
	profile    TEXT    NOT NULL,
	at         INTEGER NOT NULL
) STRICT;
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
CREATE TABLE owed (
	n     INTEGER PRIMARY KEY,
	frame TEXT    NOT NULL UNIQUE
) STRICT;
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
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'helper', 'eight', X'B87C3F31FF5AA29AB34F5FF38CF4200581E0815E3A9A94EBF16A97F9C7F2833B', '2 bytes, 1795459849627893972, 10014028', 'written', 1795459859179365, 5);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'helper', 'seven', X'190124268F13A909B565D93656163D8B8E07B649EBAA525C175CAFD152C183E8', '', 'written', 1795459857627148, 0);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'helper', 'six', X'CFA4DFAABD63217ACC755F53090DF50CAAB7C0A504F491FE6D52CDCBB0E69A8E', '', 'written', 1795459856078706, 0);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'one', X'2331AAD961F242D32B6D9C038D51AAF8CD33C74F8C4C61AF185FBBCACB5AACFD', '2 bytes, 1795459849627289488, 10014026', 'written', 1795459851536536, 1);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'three', X'F4654028089BA3B8E40299701CBEC8496FCD9797317C230EE4D9754862871D1E', '2 bytes, 1795459853715583423, 10011441', 'written', 1795459861326538, 7);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'two', X'E15D91579B1E990DCC97F27DA302F06CBFA5D9E9DE760D449D6E943ABEE388E2', '2 bytes, 1795459852179765158, 10011383', 'written', 1795459853204608, 2);
INSERT INTO relays VALUES ('23a59eb2-69c5-4ca5-aff1-dc27762a2572', '/tmp/demo/claude', 'demo', 'helper', '["/tmp/demo/agent"]', 0, '/tmp/demo', 'nudge', 'deny', X'', 0, 0, 1795459854556838, '', '', '', '');
INSERT INTO inboxes VALUES (1, '/tmp/demo/claude', 'demo', 1795196213317, 'worker');
INSERT INTO inboxes VALUES (2, '/tmp/demo/claude', 'demo', 1795196213317, 'helper');
INSERT INTO deliveries VALUES (1, 'c92bfece-9699-51cf-9cf1-7fcc7e9196d6', 2, '', 0, 'six', 'user', 'message', '', '', 1, 0, 0, 1, '0dc08e34-f724-4080-bd70-88e25b7e753d', 'done', '', 1795459856077963, 1795459856095857);
INSERT INTO deliveries VALUES (2, 'aac556eb-0151-543f-a239-2272da37da18', 2, '', 0, 'seven', 'user', 'message', '', '', 1, 0, 0, 1, '5c58359d-62c5-4966-8403-f6674ad8f8af', 'done', '', 1795459857626847, 1795459857691204);
INSERT INTO deliveries VALUES (3, '406b81b4-8b9d-508e-979a-bcf1428b3bb2', 2, '440b4792b81754ed369b1b60c39b7c72', 1, 'eight', 'worker', 'message', '', '', 0, 0, 0, 1, '5b16259d-ca1d-4426-b064-bc90805c5b85', 'done', '', 1795459859181896, 1795459859208568);
INSERT INTO contents VALUES (1, X'', X'617320612070726F6D7074');
INSERT INTO contents VALUES (2, X'7B227065726D697373696F6E4D6F6465223A22706C616E227D', X'696E20706C616E206D6F6465');
INSERT INTO contents VALUES (3, X'', X'7B0A202020202266726F6D223A2022776F726B6572222C0A202020202274657874223A202266726F6D2074686520776F726B6572222C0A202020202274696D657374616D70223A2022323032362D31312D32335431383A35303A35392E3137335A222C0A20202020226D736756223A20312C0A20202020226D73675F6964223A202237393736623039352D383866322D353231302D383764662D336665633933643663356263222C0A202020202274797065223A20226D657373616765222C0A202020202272656164223A2066616C73652C0A20202020226D6573736167654964223A20226569676874220A20207D');
INSERT INTO frames VALUES ('0dc08e34-f724-4080-bd70-88e25b7e753d', 2, 'message', '', 'b55942a9-2e68-4ed0-ba65-a47f764faf89', 'done', '', 1, 0, 0, 1795459856095857);
INSERT INTO frames VALUES ('5b16259d-ca1d-4426-b064-bc90805c5b85', 2, 'message', '', 'b55942a9-2e68-4ed0-ba65-a47f764faf89', 'done', '', 1, 0, 0, 1795459859208568);
INSERT INTO frames VALUES ('5c58359d-62c5-4966-8403-f6674ad8f8af', 2, 'message', '', 'b55942a9-2e68-4ed0-ba65-a47f764faf89', 'done', '', 1, 0, 0, 1795459857691204);
INSERT INTO lines VALUES ('0dc08e34-f724-4080-bd70-88e25b7e753d', X'7B2274797065223A2275736572222C226D657373616765223A7B22726F6C65223A2275736572222C22636F6E74656E74223A22617320612070726F6D7074227D2C2275756964223A2230646330386533342D663732342D343038302D626437302D383865323562376537353364227D');
INSERT INTO lines VALUES ('5b16259d-ca1d-4426-b064-bc90805c5b85', X'7B2274797065223A2275736572222C226D657373616765223A7B22726F6C65223A2275736572222C22636F6E74656E74223A223C7465616D6D6174652D6D657373616765207465616D6D6174655F69643D5C22776F726B65725C223E5C6E66726F6D2074686520776F726B65725C6E3C2F7465616D6D6174652D6D6573736167653E227D2C2275756964223A2235623136323539642D636131642D343432362D623036342D626339303830356335623835227D');
INSERT INTO lines VALUES ('5c58359d-62c5-4966-8403-f6674ad8f8af', X'7B2274797065223A2275736572222C226D657373616765223A7B22726F6C65223A2275736572222C22636F6E74656E74223A22696E20706C616E206D6F6465227D2C2275756964223A2235633538333539642D363263352D343936362D383430332D663636373461643866386166227D');
INSERT INTO sessions VALUES (2, 'b55942a9-2e68-4ed0-ba65-a47f764faf89', 0, 0, '', '/tmp/demo/agent', '', X'7B227065726D697373696F6E4D6F6465223A22706C616E227D', 'ended', '', 30489, 1795459859208568, 1795459857660794, 0, '');
INSERT INTO messages VALUES (1, 1, '', 1795459851501746, X'7B2266726F6D223A2275736572222C2274657874223A227468652072656C65617365206B657920697320696E207468652073616665222C2274696D657374616D70223A22323032362D31312D32335431383A35303A35312E3530305A222C226D736756223A312C226D73675F6964223A2235346535643262352D633463322D353564302D396165392D656361383661636362643932222C2274797065223A226D657373616765222C2272656164223A66616C73652C226D6573736167654964223A226F6E65227D');
INSERT INTO messages VALUES (2, 1, '', 1795459853200298, X'7B2266726F6D223A22616C696365222C2274657874223A22616C696365207761732068657265222C2274696D657374616D70223A22323032362D31312D32335431383A35303A35332E3139395A222C226D736756223A312C226D73675F6964223A2231626261666164662D363666352D356532392D393531662D323865363439636264316135222C2274797065223A226D657373616765222C2272656164223A66616C73652C226D6573736167654964223A2274776F227D');
INSERT INTO messages VALUES (3, 2, '0dc08e34-f724-4080-bd70-88e25b7e753d', 1795459856095857, X'7B2266726F6D223A2268656C706572222C2274657874223A2241434B3A20617320612070726F6D7074222C2274696D657374616D70223A22323032362D31312D32335431383A35303A35362E3039355A222C2274797065223A22616E73776572222C226D6573736167654964223A2230646330386533342D663732342D343038302D626437302D383865323562376537353364222C22696E5265706C79546F223A5B22736978225D7D');
INSERT INTO messages VALUES (4, 2, '5c58359d-62c5-4966-8403-f6674ad8f8af', 1795459857691204, X'7B2266726F6D223A2268656C706572222C2274657874223A2241434B3A20696E20706C616E206D6F6465222C2274696D657374616D70223A22323032362D31312D32335431383A35303A35372E3639315A222C2274797065223A22616E73776572222C226D6573736167654964223A2235633538333539642D363263352D343936362D383430332D663636373461643866386166222C22696E5265706C79546F223A5B22736576656E225D7D');
INSERT INTO messages VALUES (5, 2, '', 1795459859173493, X'7B2266726F6D223A22776F726B6572222C2274657874223A2266726F6D2074686520776F726B6572222C2274696D657374616D70223A22323032362D31312D32335431383A35303A35392E3137335A222C226D736756223A312C226D73675F6964223A2237393736623039352D383866322D353231302D383764662D336665633933643663356263222C2274797065223A226D657373616765222C2272656164223A66616C73652C226D6573736167654964223A226569676874227D');
INSERT INTO messages VALUES (6, 2, '5b16259d-ca1d-4426-b064-bc90805c5b85', 1795459859208568, X'7B2266726F6D223A2268656C706572222C2274657874223A2241434B3A203C7465616D6D6174652D6D657373616765207465616D6D6174655F69643D5C22776F726B65725C223E5C6E66726F6D2074686520776F726B65725C6E3C2F7465616D6D6174652D6D6573736167653E222C2274696D657374616D70223A22323032362D31312D32335431383A35303A35392E3230385A222C2274797065223A22616E73776572222C226D6573736167654964223A2235623136323539642D636131642D343432362D623036342D626339303830356335623835222C22696E5265706C79546F223A5B226569676874225D7D');
INSERT INTO messages VALUES (7, 1, '', 1795459861319494, X'7B2266726F6D223A2275736572222C2274657874223A2273656E7420776974686F757420612073657276696365222C2274696D657374616D70223A22323032362D31312D32335431383A35313A30312E3331375A222C226D736756223A312C226D73675F6964223A2235393662653332652D393531372D353536352D383266372D623434653035636164343931222C2274797065223A226D657373616765222C2272656164223A66616C73652C226D6573736167654964223A227468726565227D');
INSERT INTO events VALUES (1, 1, 0, 1, 'written', '', 0, '', 1795459851536536);
INSERT INTO events VALUES (2, 1, 0, 2, 'written', '', 0, '', 1795459853204608);
INSERT INTO events VALUES (3, 2, 0, 0, 'running', '', 30847, 'b55942a9-2e68-4ed0-ba65-a47f764faf89', 1795459854572840);
INSERT INTO events VALUES (4, 2, 1, 0, 'claimed', '', 0, '', 1795459856077963);
INSERT INTO events VALUES (5, 2, 1, 0, 'written', '', 0, '', 1795459856084751);
INSERT INTO events VALUES (6, 2, 1, 0, 'accepted', '', 0, '', 1795459856092530);
INSERT INTO events VALUES (7, 2, 1, 0, 'done', '', 0, '', 1795459856095857);
INSERT INTO events VALUES (8, 2, 0, 3, 'answer', '', 0, 'b55942a9-2e68-4ed0-ba65-a47f764faf89', 1795459856095857);
INSERT INTO events VALUES (9, 2, 2, 0, 'claimed', '', 0, '', 1795459857626847);
INSERT INTO events VALUES (10, 2, 0, 0, 'running', '', 30883, 'b55942a9-2e68-4ed0-ba65-a47f764faf89', 1795459857660794);
INSERT INTO events VALUES (11, 2, 2, 0, 'written', '', 0, '', 1795459857668723);
INSERT INTO events VALUES (12, 2, 2, 0, 'accepted', '', 0, '', 1795459857690807);
INSERT INTO events VALUES (13, 2, 2, 0, 'done', '', 0, '', 1795459857691204);
INSERT INTO events VALUES (14, 2, 0, 4, 'answer', '', 0, 'b55942a9-2e68-4ed0-ba65-a47f764faf89', 1795459857691204);
INSERT INTO events VALUES (15, 2, 3, 0, 'claimed', '', 0, '', 1795459859181896);
INSERT INTO events VALUES (16, 2, 3, 0, 'written', '', 0, '', 1795459859195710);
INSERT INTO events VALUES (17, 2, 0, 5, 'written', '', 0, '', 1795459859179365);
INSERT INTO events VALUES (18, 2, 3, 0, 'accepted', '', 0, '', 1795459859208230);
INSERT INTO events VALUES (19, 2, 3, 0, 'done', '', 0, '', 1795459859208568);
INSERT INTO events VALUES (20, 2, 0, 6, 'answer', '', 0, 'b55942a9-2e68-4ed0-ba65-a47f764faf89', 1795459859208568);
INSERT INTO events VALUES (21, 2, 0, 0, 'ended', '', 0, 'b55942a9-2e68-4ed0-ba65-a47f764faf89', 1795459857660794);
INSERT INTO events VALUES (22, 1, 0, 7, 'written', '', 0, '', 1795459861326538);
INSERT INTO epochs VALUES (1, '97597a49bb21bc3e08efc5fd5a31c0b6');
INSERT INTO epochs VALUES (22, '3d8236e98d13f82259b50b028aa658e7');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES ('events', 22);
INSERT INTO sqlite_sequence VALUES ('deliveries', 3);
CREATE UNIQUE INDEX deliveries_key ON deliveries (inbox_id, key, occurrence) WHERE key<>'';
CREATE INDEX deliveries_open ON deliveries (inbox_id) WHERE state IN ('claimed', 'written', 'accepted', 'cut');
CREATE INDEX deliveries_failed ON deliveries (inbox_id) WHERE state='failed';
CREATE INDEX deliveries_id ON deliveries (inbox_id, id);
CREATE INDEX deliveries_sender ON deliveries (inbox_id, sender);
CREATE UNIQUE INDEX frames_open ON frames (inbox_id, kind='nudge') WHERE state IN ('claimed', 'written', 'accepted', 'cut');
CREATE UNIQUE INDEX messages_frame ON messages (frame) WHERE frame<>'';
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
CREATE INDEX pane_messages_task ON pane_messages (task) WHERE task IN ('sent', 'given', 'staged', 'armed');
CREATE INDEX pane_messages_notify ON pane_messages (seq) WHERE notify<>0 AND notified=0 AND task='ended';
CREATE TRIGGER pane_messages_held AFTER UPDATE OF held ON pane_messages WHEN new.held<>old.held AND new.held<>'' BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		SELECT inbox_id, new.seq, 'held', new.detail, 0, '', new.held_since FROM deliveries WHERE seq=new.seq;
END;
CREATE TRIGGER pane_messages_task AFTER UPDATE OF task ON pane_messages
	WHEN new.task<>old.task AND (new.task='given' OR new.task='ended' AND new.lost='') BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		SELECT inbox_id, new.seq, iif(new.task='given', 'given', 'finished'), '', 0, '', new.task_at FROM deliveries WHERE seq=new.seq;
END;
CREATE INDEX frames_parent ON frames (parent) WHERE parent<>'';
CREATE TRIGGER frames_ended AFTER UPDATE OF state ON frames
	WHEN new.state IN ('done', 'failed', 'cancelled') AND old.state NOT IN ('done', 'failed', 'cancelled') AND new.kind<>'nudge'
	AND EXISTS (SELECT 1 FROM sessions WHERE inbox_id=new.inbox_id AND answers<>0) BEGIN
	INSERT INTO owed (frame) VALUES (new.uuid);
END;
PRAGMA application_id=1952599141;
PRAGMA user_version=8;
COMMIT;

-- A ledger as commit 734414a3 made it, out of one of version 10: version 12.

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
INSERT INTO sends VALUES('/tmp/demo/claude','demo',1795196213317,'helper','eight',X'b87c3f31ff5aa29ab34f5ff38cf4200581e0815e3a9a94ebf16a97f9c7f2833b','2 bytes, 1795459849627893972, 10014028','written',1795459859179365,5);
INSERT INTO sends VALUES('/tmp/demo/claude','demo',1795196213317,'helper','seven',X'190124268f13a909b565d93656163d8b8e07b649ebaa525c175cafd152c183e8','','written',1795459857627148,0);
INSERT INTO sends VALUES('/tmp/demo/claude','demo',1795196213317,'helper','six',X'cfa4dfaabd63217acc755f53090df50caab7c0a504f491fe6d52cdcbb0e69a8e','','written',1795459856078706,0);
INSERT INTO sends VALUES('/tmp/demo/claude','demo',1795196213317,'worker','one',X'2331aad961f242d32b6d9c038d51aaf8cd33c74f8c4c61af185fbbcacb5aacfd','2 bytes, 1795459849627289488, 10014026','written',1795459851536536,1);
INSERT INTO sends VALUES('/tmp/demo/claude','demo',1795196213317,'worker','three',X'f4654028089ba3b8e40299701cbec8496fcd9797317c230ee4d9754862871d1e','2 bytes, 1795459853715583423, 10011441','written',1795459861326538,7);
INSERT INTO sends VALUES('/tmp/demo/claude','demo',1795196213317,'worker','two',X'e15d91579b1e990dcc97f27da302f06cbfa5d9e9de760d449d6e943abee388e2','2 bytes, 1795459852179765158, 10011383','written',1795459853204608,2);
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
INSERT INTO relays VALUES('23a59eb2-69c5-4ca5-aff1-dc27762a2572','/tmp/demo/claude','demo','helper','["/tmp/demo/agent"]',0,'/tmp/demo','nudge','deny',X'',0,0,1795459854556838,'','','','');
CREATE TABLE inboxes (
	inbox_id   INTEGER PRIMARY KEY,
	root       TEXT    NOT NULL,
	team       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	inbox      TEXT    NOT NULL,
	UNIQUE (root, team, created_at, inbox)
) STRICT;
INSERT INTO inboxes VALUES(1,'/tmp/demo/claude','demo',1795196213317,'worker');
INSERT INTO inboxes VALUES(2,'/tmp/demo/claude','demo',1795196213317,'helper');
INSERT INTO inboxes VALUES(3,'/home/ann/.claude','sessions',1,'work');
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
INSERT INTO deliveries VALUES(1,'c92bfece-9699-51cf-9cf1-7fcc7e9196d6',2,'',0,'six','user','message','','',1,0,0,1,'0dc08e34-f724-4080-bd70-88e25b7e753d','done','',1795459856077963,1795459856095857);
INSERT INTO deliveries VALUES(2,'aac556eb-0151-543f-a239-2272da37da18',2,'',0,'seven','user','message','','',1,0,0,1,'5c58359d-62c5-4966-8403-f6674ad8f8af','done','',1795459857626847,1795459857691204);
INSERT INTO deliveries VALUES(3,'406b81b4-8b9d-508e-979a-bcf1428b3bb2',2,'440b4792b81754ed369b1b60c39b7c72',1,'eight','worker','message','','',0,0,0,1,'5b16259d-ca1d-4426-b064-bc90805c5b85','done','',1795459859181896,1795459859208568);
CREATE TABLE contents (
	seq        INTEGER PRIMARY KEY, -- of the delivery
	mode       BLOB    NOT NULL,
	raw        BLOB    NOT NULL
) STRICT;
INSERT INTO contents VALUES(1,X'',X'617320612070726f6d7074');
INSERT INTO contents VALUES(2,X'7b227065726d697373696f6e4d6f6465223a22706c616e227d',X'696e20706c616e206d6f6465');
INSERT INTO contents VALUES(3,X'',X'7b0a202020202266726f6d223a2022776f726b6572222c0a202020202274657874223a202266726f6d2074686520776f726b6572222c0a202020202274696d657374616d70223a2022323032362d31312d32335431383a35303a35392e3137335a222c0a20202020226d736756223a20312c0a20202020226d73675f6964223a202237393736623039352d383866322d353231302d383764662d336665633933643663356263222c0a202020202274797065223a20226d657373616765222c0a202020202272656164223a2066616c73652c0a20202020226d6573736167654964223a20226569676874220a20207d');
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
INSERT INTO frames VALUES('0dc08e34-f724-4080-bd70-88e25b7e753d',2,'message','','b55942a9-2e68-4ed0-ba65-a47f764faf89','done','',1,0,0,1795459856095857);
INSERT INTO frames VALUES('5b16259d-ca1d-4426-b064-bc90805c5b85',2,'message','','b55942a9-2e68-4ed0-ba65-a47f764faf89','done','',1,0,0,1795459859208568);
INSERT INTO frames VALUES('5c58359d-62c5-4966-8403-f6674ad8f8af',2,'message','','b55942a9-2e68-4ed0-ba65-a47f764faf89','done','',1,0,0,1795459857691204);
CREATE TABLE lines (
	uuid       TEXT    PRIMARY KEY, -- of the frame
	line       BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO lines VALUES('0dc08e34-f724-4080-bd70-88e25b7e753d',X'7b2274797065223a2275736572222c226d657373616765223a7b22726f6c65223a2275736572222c22636f6e74656e74223a22617320612070726f6d7074227d2c2275756964223a2230646330386533342d663732342d343038302d626437302d383865323562376537353364227d');
INSERT INTO lines VALUES('5b16259d-ca1d-4426-b064-bc90805c5b85',X'7b2274797065223a2275736572222c226d657373616765223a7b22726f6c65223a2275736572222c22636f6e74656e74223a223c7465616d6d6174652d6d657373616765207465616d6d6174655f69643d5c22776f726b65725c223e5c6e66726f6d2074686520776f726b65725c6e3c2f7465616d6d6174652d6d6573736167653e227d2c2275756964223a2235623136323539642d636131642d343432362d623036342d626339303830356335623835227d');
INSERT INTO lines VALUES('5c58359d-62c5-4966-8403-f6674ad8f8af',X'7b2274797065223a2275736572222c226d657373616765223a7b22726f6c65223a2275736572222c22636f6e74656e74223a22696e20706c616e206d6f6465227d2c2275756964223a2235633538333539642d363263352d343936362d383430332d663636373461643866386166227d');
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
, answers   INTEGER NOT NULL DEFAULT 0, shut_down TEXT    NOT NULL DEFAULT '', permission_mode TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO sessions VALUES(2,'b55942a9-2e68-4ed0-ba65-a47f764faf89',0,0,'','/tmp/demo/agent','',X'7b227065726d697373696f6e4d6f6465223a22706c616e227d','ended','',30489,1795459859208568,1795459857660794,0,'','');
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
INSERT INTO messages VALUES(1,1,'',1795459851501746,X'7b2266726f6d223a2275736572222c2274657874223a227468652072656c65617365206b657920697320696e207468652073616665222c2274696d657374616d70223a22323032362d31312d32335431383a35303a35312e3530305a222c226d736756223a312c226d73675f6964223a2235346535643262352d633463322d353564302d396165392d656361383661636362643932222c2274797065223a226d657373616765222c2272656164223a66616c73652c226d6573736167654964223a226f6e65227d');
INSERT INTO messages VALUES(2,1,'',1795459853200298,X'7b2266726f6d223a22616c696365222c2274657874223a22616c696365207761732068657265222c2274696d657374616d70223a22323032362d31312d32335431383a35303a35332e3139395a222c226d736756223a312c226d73675f6964223a2231626261666164662d363666352d356532392d393531662d323865363439636264316135222c2274797065223a226d657373616765222c2272656164223a66616c73652c226d6573736167654964223a2274776f227d');
INSERT INTO messages VALUES(3,2,'0dc08e34-f724-4080-bd70-88e25b7e753d',1795459856095857,X'7b2266726f6d223a2268656c706572222c2274657874223a2241434b3a20617320612070726f6d7074222c2274696d657374616d70223a22323032362d31312d32335431383a35303a35362e3039355a222c2274797065223a22616e73776572222c226d6573736167654964223a2230646330386533342d663732342d343038302d626437302d383865323562376537353364222c22696e5265706c79546f223a5b22736978225d7d');
INSERT INTO messages VALUES(4,2,'5c58359d-62c5-4966-8403-f6674ad8f8af',1795459857691204,X'7b2266726f6d223a2268656c706572222c2274657874223a2241434b3a20696e20706c616e206d6f6465222c2274696d657374616d70223a22323032362d31312d32335431383a35303a35372e3639315a222c2274797065223a22616e73776572222c226d6573736167654964223a2235633538333539642d363263352d343936362d383430332d663636373461643866386166222c22696e5265706c79546f223a5b22736576656e225d7d');
INSERT INTO messages VALUES(5,2,'',1795459859173493,X'7b2266726f6d223a22776f726b6572222c2274657874223a2266726f6d2074686520776f726b6572222c2274696d657374616d70223a22323032362d31312d32335431383a35303a35392e3137335a222c226d736756223a312c226d73675f6964223a2237393736623039352d383866322d353231302d383764662d336665633933643663356263222c2274797065223a226d657373616765222c2272656164223a66616c73652c226d6573736167654964223a226569676874227d');
INSERT INTO messages VALUES(6,2,'5b16259d-ca1d-4426-b064-bc90805c5b85',1795459859208568,X'7b2266726f6d223a2268656c706572222c2274657874223a2241434b3a203c7465616d6d6174652d6d657373616765207465616d6d6174655f69643d5c22776f726b65725c223e5c6e66726f6d2074686520776f726b65725c6e3c2f7465616d6d6174652d6d6573736167653e222c2274696d657374616d70223a22323032362d31312d32335431383a35303a35392e3230385a222c2274797065223a22616e73776572222c226d6573736167654964223a2235623136323539642d636131642d343432362d623036342d626339303830356335623835222c22696e5265706c79546f223a5b226569676874225d7d');
INSERT INTO messages VALUES(7,1,'',1795459861319494,X'7b2266726f6d223a2275736572222c2274657874223a2273656e7420776974686f757420612073657276696365222c2274696d657374616d70223a22323032362d31312d32335431383a35313a30312e3331375a222c226d736756223a312c226d73675f6964223a2235393662653332652d393531372d353536352d383266372d623434653035636164343931222c2274797065223a226d657373616765222c2272656164223a66616c73652c226d6573736167654964223a227468726565227d');
INSERT INTO messages VALUES(8,3,'said-before',1795647698940515,X'7b2266726f6d223a22776f726b222c2274657874223a22616e20616e73776572206f66206265666f7265222c2274696d657374616d70223a22323032362d31312d32355432333a30313a33382e3934305a222c2274797065223a22616e73776572222c226d6573736167654964223a22736169642d6265666f7265222c22696e5265706c79546f223a5b5d7d');
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
INSERT INTO events VALUES(1,1,0,1,'written','',0,'',1795459851536536);
INSERT INTO events VALUES(2,1,0,2,'written','',0,'',1795459853204608);
INSERT INTO events VALUES(3,2,0,0,'running','',30847,'b55942a9-2e68-4ed0-ba65-a47f764faf89',1795459854572840);
INSERT INTO events VALUES(4,2,1,0,'claimed','',0,'',1795459856077963);
INSERT INTO events VALUES(5,2,1,0,'written','',0,'',1795459856084751);
INSERT INTO events VALUES(6,2,1,0,'accepted','',0,'',1795459856092530);
INSERT INTO events VALUES(7,2,1,0,'done','',0,'',1795459856095857);
INSERT INTO events VALUES(8,2,0,3,'answer','',0,'b55942a9-2e68-4ed0-ba65-a47f764faf89',1795459856095857);
INSERT INTO events VALUES(9,2,2,0,'claimed','',0,'',1795459857626847);
INSERT INTO events VALUES(10,2,0,0,'running','',30883,'b55942a9-2e68-4ed0-ba65-a47f764faf89',1795459857660794);
INSERT INTO events VALUES(11,2,2,0,'written','',0,'',1795459857668723);
INSERT INTO events VALUES(12,2,2,0,'accepted','',0,'',1795459857690807);
INSERT INTO events VALUES(13,2,2,0,'done','',0,'',1795459857691204);
INSERT INTO events VALUES(14,2,0,4,'answer','',0,'b55942a9-2e68-4ed0-ba65-a47f764faf89',1795459857691204);
INSERT INTO events VALUES(15,2,3,0,'claimed','',0,'',1795459859181896);
INSERT INTO events VALUES(16,2,3,0,'written','',0,'',1795459859195710);
INSERT INTO events VALUES(17,2,0,5,'written','',0,'',1795459859179365);
INSERT INTO events VALUES(18,2,3,0,'accepted','',0,'',1795459859208230);
INSERT INTO events VALUES(19,2,3,0,'done','',0,'',1795459859208568);
INSERT INTO events VALUES(20,2,0,6,'answer','',0,'b55942a9-2e68-4ed0-ba65-a47f764faf89',1795459859208568);
INSERT INTO events VALUES(21,2,0,0,'ended','',0,'b55942a9-2e68-4ed0-ba65-a47f764faf89',1795459857660794);
INSERT INTO events VALUES(22,1,0,7,'written','',0,'',1795459861326538);
INSERT INTO events VALUES(23,3,0,8,'answer','',0,'',1795647698940515);
CREATE TABLE epochs (
	first      INTEGER PRIMARY KEY, -- number of an event
	id         TEXT    NOT NULL
) STRICT;
INSERT INTO epochs VALUES(1,'97597a49bb21bc3e08efc5fd5a31c0b6');
INSERT INTO epochs VALUES(22,'3d8236e98d13f82259b50b028aa658e7');
INSERT INTO epochs VALUES(23,'51689e95d6a5a63e0d845508db16e09d');
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
, start TEXT NOT NULL DEFAULT '', cwd   TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO panes VALUES(3,'/tmp/s',0,'aaaa',1,'session',1794819600123456,'100','/work');
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
CREATE TABLE said (
	message    INTEGER PRIMARY KEY, -- of messages
	sender     TEXT    NOT NULL,
	read_at    INTEGER NOT NULL     -- 0: it is unread
) STRICT;
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
CREATE TABLE shares (
	machine     TEXT    NOT NULL,
	root        TEXT    NOT NULL,
	team        TEXT    NOT NULL,
	PRIMARY KEY (machine, root, team)
) STRICT, WITHOUT ROWID;
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
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('events',23);
INSERT INTO sqlite_sequence VALUES('deliveries',3);
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
CREATE INDEX said_unread ON said (sender) WHERE read_at=0;
CREATE TRIGGER said_forgotten AFTER DELETE ON messages BEGIN
	DELETE FROM said WHERE message=old.message;
END;
CREATE TRIGGER said_emptied AFTER UPDATE OF raw ON messages WHEN new.raw=x'' BEGIN
	DELETE FROM said WHERE message=new.message;
END;
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
CREATE INDEX incoming_received ON incoming (n) WHERE stage='received';
CREATE INDEX incoming_open ON incoming (n) WHERE stage IN ('verified', 'consumed');
CREATE INDEX incoming_id ON incoming (machine, id);
CREATE INDEX incoming_asks ON incoming (n) WHERE asks<>0;
CREATE INDEX incoming_untold ON incoming (machine, n) WHERE told<>stage;
PRAGMA application_id=1952599141;
PRAGMA user_version=12;
COMMIT;

-- A ledger as commit e05f598 made it: version 5 of the development versions.

BEGIN;
CREATE TABLE sends (
	root       TEXT    NOT NULL,
	team       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	inbox      TEXT    NOT NULL,
	id         TEXT    NOT NULL,
	digest     BLOB    NOT NULL,
	before     TEXT    NOT NULL,
	state      TEXT    NOT NULL,
	at         INTEGER NOT NULL,
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
CREATE TABLE posts (
	post       INTEGER PRIMARY KEY,
	root       TEXT    NOT NULL,
	team       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	inbox      TEXT    NOT NULL,
	UNIQUE (root, team, created_at, inbox)
) STRICT;
CREATE TABLE deliveries (
	seq        INTEGER PRIMARY KEY AUTOINCREMENT,
	uuid       TEXT    NOT NULL UNIQUE,
	post       INTEGER NOT NULL,
	key        TEXT    NOT NULL,
	occurrence INTEGER NOT NULL,
	id         TEXT    NOT NULL,
	sender     TEXT    NOT NULL,
	kind       TEXT    NOT NULL,
	person     INTEGER NOT NULL,
	isolated   INTEGER NOT NULL,
	marked     INTEGER NOT NULL,
	frame      TEXT    NOT NULL,
	state      TEXT    NOT NULL,
	reason     TEXT    NOT NULL,
	at         INTEGER NOT NULL
) STRICT;
CREATE TABLE contents (
	seq        INTEGER PRIMARY KEY,
	mode       BLOB    NOT NULL,
	raw        BLOB    NOT NULL
) STRICT;
CREATE TABLE pruned (
	post       INTEGER NOT NULL,
	key        TEXT    NOT NULL,
	occurrence INTEGER NOT NULL,
	PRIMARY KEY (post, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE frames (
	uuid       TEXT    PRIMARY KEY,
	post       INTEGER NOT NULL,
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
	uuid       TEXT    PRIMARY KEY,
	line       BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sessions (
	post       INTEGER PRIMARY KEY,
	id         TEXT    NOT NULL,
	pid        INTEGER NOT NULL,
	process_group INTEGER NOT NULL,
	start      TEXT    NOT NULL,
	command    TEXT    NOT NULL,
	dead       TEXT    NOT NULL,
	at         INTEGER NOT NULL
, state  TEXT    NOT NULL DEFAULT '', reason TEXT    NOT NULL DEFAULT '', relay  INTEGER NOT NULL DEFAULT 0, acked  INTEGER NOT NULL DEFAULT 0, mode BLOB NOT NULL DEFAULT x'') STRICT;
CREATE TABLE identity (
	only       INTEGER PRIMARY KEY CHECK (only = 1),
	id         TEXT    NOT NULL
) STRICT;
CREATE TABLE events (
	n          INTEGER PRIMARY KEY AUTOINCREMENT,
	post       INTEGER NOT NULL,
	delivery   INTEGER NOT NULL, -- its seq; 0: it is about the relay
	state      TEXT    NOT NULL,
	reason     TEXT    NOT NULL,
	pid        INTEGER NOT NULL,
	session    TEXT    NOT NULL,
	at         INTEGER NOT NULL
) STRICT;
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
	created     INTEGER NOT NULL,
	UNIQUE (root, team, member)
) STRICT, WITHOUT ROWID;
INSERT INTO sends VALUES ('/home/ann/.claude', 'blue', 1763280000000, 'bob', 'done', X'0102000000000000000000000000000000000000000000000000000000000003', 'size 12', 'written', 1794906000123456);
INSERT INTO sends VALUES ('/home/ann/.claude', 'blue', 1763280000000, 'bob', 'intended', X'0102000000000000000000000000000000000000000000000000000000000003', 'size 12', 'intent', 1794819600123456);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'helper', 'four', X'3CE0F8F4D9D36A53CB6138547C8208C39523A2AAA485402EFB5067BFE3284A20', '2 bytes, 1795459722697537079, 9995827', 'written', 1795459728396343);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'one', X'7427588AD4413C00ED75EB216CF0193699D2F6C6097104A84F34C2168EE88533', '2 bytes, 1795459722697206639, 9995402', 'written', 1795459724122510);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'three', X'0832017EA954857B07992AD2FD0C8B7FDCE01AB3BBD367020699C33890259CD9', '2 bytes, 1795459726319899480, 9996106', 'written', 1795459730585858);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'two', X'E15D91579B1E990DCC97F27DA302F06CBFA5D9E9DE760D449D6E943ABEE388E2', '2 bytes, 1795459724781998418, 9996105', 'written', 1795459725798360);
INSERT INTO joins VALUES ('/r', 'blue', 1, 'operator', 'operator@blue', 1794819600123456);
INSERT INTO posts VALUES (1, '/home/ann/.claude', 'blue', 1763280000000, 'bob');
INSERT INTO posts VALUES (2, '/home/ann/.claude', 'blue', 1763280000000, 'modal');
INSERT INTO posts VALUES (3, '/tmp/demo/claude', 'demo', 1795196213317, 'helper');
INSERT INTO deliveries VALUES (1, 'cut', 1, 'key of cut', 1, 'id of cut', 'ann', 'message', 0, 0, 1, 'f1', 'cut', '', 1794819600123456);
INSERT INTO deliveries VALUES (2, 'waiting', 1, 'key of waiting', 1, 'id of waiting', 'ann', 'message', 0, 0, 1, '', 'claimed', '', 1794819600123456);
INSERT INTO deliveries VALUES (3, 'unmarked', 1, 'key of unmarked', 1, 'id of unmarked', 'ann', 'message', 0, 0, 0, '', 'claimed', '', 1794819600123456);
INSERT INTO deliveries VALUES (4, 'taken', 1, 'key of taken', 1, 'id of taken', 'ann', 'message', 0, 0, 0, '', 'taken_by_agent', 'gone from the file', 1795264471345557);
INSERT INTO deliveries VALUES (5, 'typed', 1, '', 0, '', 'operator', 'message', 1, 1, 1, '', 'claimed', '', 1794819600123456);
INSERT INTO deliveries VALUES (6, '1cdd8cd2-d93b-5f61-9a10-d05f471407d0', 3, '68ac9bfad10904c107ea3e55c79f4d65', 1, 'four', 'user', 'message', 0, 0, 1, 'eedada90-565b-4670-9357-e29e0bdcf416', 'done', '', 1795459728771588);
INSERT INTO contents VALUES (1, X'', X'7B2266726F6D223A22616E6E222C2274657874223A22637574227D');
INSERT INTO contents VALUES (2, X'', X'7B2266726F6D223A22616E6E222C2274657874223A2277616974696E67227D');
INSERT INTO contents VALUES (3, X'', X'7B2266726F6D223A22616E6E222C2274657874223A22756E6D61726B6564227D');
INSERT INTO contents VALUES (4, X'', X'7B2266726F6D223A22616E6E222C2274657874223A2274616B656E227D');
INSERT INTO contents VALUES (5, X'7B226D6F64656C223A22736F6E6E6574227D', X'666978206974');
INSERT INTO contents VALUES (6, X'', X'7B0A202020202266726F6D223A202275736572222C0A202020202274657874223A2022776F726B206F6E206974222C0A202020202274696D657374616D70223A2022323032362D31312D32335431383A34383A34382E3339365A222C0A20202020226D736756223A20312C0A20202020226D73675F6964223A202265353238656433372D393136612D356135322D626361622D663136333935626537373830222C0A202020202274797065223A20226D657373616765222C0A202020202272656164223A2066616C73652C0A20202020226D6573736167654964223A2022666F7572220A20207D');
INSERT INTO frames VALUES ('eedada90-565b-4670-9357-e29e0bdcf416', 3, 'message', '', '876386bf-39aa-4dc6-832f-c2acfbdbabcc', 'done', '', 1, 0, 0, 1795459728771588);
INSERT INTO frames VALUES ('f1', 1, 'message', '', 'session-2', 'cut', '', 1, 1, 1, 1794819600123456);
INSERT INTO frames VALUES ('n1', 1, 'nudge', 'f1', 'session-1', 'written', '', 0, 0, 0, 1794819600123456);
INSERT INTO lines VALUES ('eedada90-565b-4670-9357-e29e0bdcf416', X'7B2274797065223A2275736572222C226D657373616765223A7B22726F6C65223A2275736572222C22636F6E74656E74223A223C7465616D6D6174652D6D657373616765207465616D6D6174655F69643D5C22757365725C222076657269666965643D5C2266616C73655C223E5C6E776F726B206F6E2069745C6E3C2F7465616D6D6174652D6D6573736167653E227D2C2275756964223A2265656461646139302D353635622D343637302D393335372D653239653062646366343136227D');
INSERT INTO lines VALUES ('f1', X'7B2275756964223A226631227D');
INSERT INTO lines VALUES ('n1', X'7B2275756964223A226E31227D');
INSERT INTO sessions VALUES (1, 'session-2', 4711, 4700, '12345', 'claude -p', '5 deaths', 1794819600123456, '', '', 0, 0, X'');
INSERT INTO sessions VALUES (2, 'session-2', 4711, 4700, '12345', 'claude -p', '5 deaths', 1794819600123456, '', '', 0, 0, X'7B227065726D697373696F6E4D6F6465223A22706C616E227D');
INSERT INTO sessions VALUES (3, '876386bf-39aa-4dc6-832f-c2acfbdbabcc', 0, 0, '', '/tmp/demo/agent', '', 1795459727229470, 'ended', '', 6102, 1795459728771588, X'7B7D');
INSERT INTO identity VALUES (1, '0b7c70c30c4ad074e5518af875b42239');
INSERT INTO events VALUES (1, 1, 1, 'claimed', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (2, 1, 2, 'claimed', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (3, 1, 3, 'claimed', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (4, 1, 4, 'claimed', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (5, 1, 5, 'claimed', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (6, 1, 4, 'taken_by_agent', 'gone from the file', 0, '', 1795264471345557);
INSERT INTO events VALUES (7, 1, 1, 'written', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (8, 1, 1, 'cut', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (9, 3, 0, 'running', '', 6116, '876386bf-39aa-4dc6-832f-c2acfbdbabcc', 1795459727229470);
INSERT INTO events VALUES (10, 3, 6, 'claimed', '', 0, '', 1795459728613624);
INSERT INTO events VALUES (11, 3, 6, 'written', '', 0, '', 1795459728722547);
INSERT INTO events VALUES (12, 3, 6, 'accepted', '', 0, '', 1795459728764767);
INSERT INTO events VALUES (13, 3, 6, 'done', '', 0, '', 1795459728771588);
INSERT INTO events VALUES (14, 3, 0, 'ended', '', 0, '876386bf-39aa-4dc6-832f-c2acfbdbabcc', 1795459727229470);
INSERT INTO relays VALUES ('5f3c6f5e-1111-4222-8333-123456789abc', '/r', 'blue', 'bob', '["claude","--model","a b"]', 1, '/home/dev', 'report', 'allow=Read', X'7B226D6F64656C223A22736F6E6E6574227D', 1794819600123456);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES ('events', 14);
INSERT INTO sqlite_sequence VALUES ('deliveries', 6);
CREATE UNIQUE INDEX deliveries_key ON deliveries (post, key, occurrence) WHERE key<>'';
CREATE INDEX deliveries_open ON deliveries (post) WHERE state IN ('claimed', 'written', 'accepted', 'cut');
CREATE UNIQUE INDEX frames_open ON frames (post, kind='nudge') WHERE state IN ('claimed', 'written', 'accepted', 'cut');
CREATE INDEX deliveries_failed ON deliveries (post) WHERE state='failed';
CREATE INDEX events_at ON events (at);
CREATE TRIGGER deliveries_claimed AFTER INSERT ON deliveries BEGIN
	INSERT INTO events (post, delivery, state, reason, pid, session, at)
		VALUES (new.post, new.seq, new.state, new.reason, 0, '', new.at);
END;
CREATE TRIGGER deliveries_moved AFTER UPDATE OF state ON deliveries WHEN new.state<>old.state BEGIN
	INSERT INTO events (post, delivery, state, reason, pid, session, at)
		VALUES (new.post, new.seq, new.state, new.reason, 0, '', new.at);
END;
CREATE TRIGGER sessions_began AFTER INSERT ON sessions WHEN new.state NOT IN ('', 'starting') BEGIN
	INSERT INTO events (post, delivery, state, reason, pid, session, at)
		VALUES (new.post, 0, new.state, new.reason, new.pid, new.id, new.at);
END;
CREATE TRIGGER sessions_moved AFTER UPDATE OF state, id, pid ON sessions WHEN new.state NOT IN ('', 'starting')
	AND (new.state<>old.state OR new.id<>old.id OR new.pid<>old.pid) BEGIN
	INSERT INTO events (post, delivery, state, reason, pid, session, at)
		VALUES (new.post, 0, new.state, new.reason, new.pid, new.id, new.at);
END;
PRAGMA application_id=1952599111;
PRAGMA user_version=5;
COMMIT;

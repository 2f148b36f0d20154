-- A ledger as commit 079c934 made it: version 9 of the development versions.

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
, summary TEXT NOT NULL DEFAULT '', color TEXT NOT NULL DEFAULT '') STRICT;
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
	created     INTEGER NOT NULL, own_team INTEGER NOT NULL DEFAULT 0,
	UNIQUE (root, team, member)
) STRICT, WITHOUT ROWID;
CREATE TABLE foundings (
	root       TEXT    NOT NULL,
	team       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	lead       TEXT    NOT NULL,
	session    TEXT    NOT NULL,
	leaders    TEXT    NOT NULL, -- JSON, a list of words
	doomed     INTEGER NOT NULL,
	at         INTEGER NOT NULL,
	PRIMARY KEY (root, team, created_at)
) STRICT, WITHOUT ROWID;
CREATE TABLE epochs (
	first      INTEGER PRIMARY KEY, -- number of an event
	id         TEXT    NOT NULL
) STRICT;
INSERT INTO sends VALUES ('/home/ann/.claude', 'blue', 1763280000000, 'bob', 'done', X'0102000000000000000000000000000000000000000000000000000000000003', 'size 12', 'written', 1794906000123456);
INSERT INTO sends VALUES ('/home/ann/.claude', 'blue', 1763280000000, 'bob', 'intended', X'0102000000000000000000000000000000000000000000000000000000000003', 'size 12', 'intent', 1794819600123456);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'helper', 'eight', X'B87C3F31FF5AA29AB34F5FF38CF4200581E0815E3A9A94EBF16A97F9C7F2833B', '2 bytes, 1795459764764937080, 10011020', 'written', 1795459774160317);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'helper', 'seven', X'190124268F13A909B565D93656163D8B8E07B649EBAA525C175CAFD152C183E8', '', 'written', 1795459772633021);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'helper', 'six', X'CFA4DFAABD63217ACC755F53090DF50CAAB7C0A504F491FE6D52CDCBB0E69A8E', '', 'written', 1795459771110583);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'one', X'2331AAD961F242D32B6D9C038D51AAF8CD33C74F8C4C61AF185FBBCACB5AACFD', '2 bytes, 1795459764764787058, 10010729', 'written', 1795459766489055);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'three', X'F4654028089BA3B8E40299701CBEC8496FCD9797317C230EE4D9754862871D1E', '2 bytes, 1795459768730192804, 10010646', 'written', 1795459776537425);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'two', X'E15D91579B1E990DCC97F27DA302F06CBFA5D9E9DE760D449D6E943ABEE388E2', '2 bytes, 1795459767154586771, 10011237', 'written', 1795459768172727);
INSERT INTO joins VALUES ('/r', 'blue', 1, 'operator', 'operator@blue', 1794819600123456);
INSERT INTO posts VALUES (1, '/home/ann/.claude', 'blue', 1763280000000, 'bob');
INSERT INTO posts VALUES (2, '/home/ann/.claude', 'blue', 1763280000000, 'modal');
INSERT INTO posts VALUES (3, '/tmp/demo/claude', 'demo', 1795196213317, 'helper');
INSERT INTO deliveries VALUES (1, 'cut', 1, 'key of cut', 1, 'id of cut', 'ann', 'message', 0, 0, 1, 'f1', 'cut', '', 1794819600123456, '', '');
INSERT INTO deliveries VALUES (2, 'waiting', 1, 'key of waiting', 1, 'id of waiting', 'ann', 'message', 0, 0, 1, '', 'claimed', '', 1794819600123456, '', '');
INSERT INTO deliveries VALUES (3, 'unmarked', 1, 'key of unmarked', 1, 'id of unmarked', 'ann', 'message', 0, 0, 0, '', 'claimed', '', 1794819600123456, '', '');
INSERT INTO deliveries VALUES (4, 'taken', 1, 'key of taken', 1, 'id of taken', 'ann', 'message', 0, 0, 0, '', 'taken_by_agent', 'gone from the file', 1795308224666841, '', '');
INSERT INTO deliveries VALUES (5, 'typed', 1, '', 0, '', 'operator', 'message', 1, 1, 1, '', 'claimed', '', 1794819600123456, '', '');
INSERT INTO deliveries VALUES (6, 'c92bfece-9699-51cf-9cf1-7fcc7e9196d6', 3, '', 0, 'six', 'user', 'message', 1, 0, 1, 'ea1f6399-f536-48ca-affd-c0c8653663c7', 'done', '', 1795459771601439, '', '');
INSERT INTO deliveries VALUES (7, 'aac556eb-0151-543f-a239-2272da37da18', 3, '', 0, 'seven', 'user', 'message', 1, 0, 1, 'cf0a376c-95eb-4ee3-b11f-a1627e696e66', 'done', '', 1795459772706110, '', '');
INSERT INTO deliveries VALUES (8, '2b1e8415-4a81-56c8-894c-ce8a86e3ae70', 3, '864d9636a0878829f4a04a00bcde7a41', 1, 'eight', 'worker', 'message', 0, 0, 1, 'b48d1316-c90b-4ed9-b4d8-8dce4c72cde4', 'done', '', 1795459774456620, '', '');
INSERT INTO contents VALUES (1, X'', X'7B2266726F6D223A22616E6E222C2274657874223A22637574227D');
INSERT INTO contents VALUES (2, X'', X'7B2266726F6D223A22616E6E222C2274657874223A2277616974696E67227D');
INSERT INTO contents VALUES (3, X'', X'7B2266726F6D223A22616E6E222C2274657874223A22756E6D61726B6564227D');
INSERT INTO contents VALUES (4, X'', X'7B2266726F6D223A22616E6E222C2274657874223A2274616B656E227D');
INSERT INTO contents VALUES (5, X'7B226D6F64656C223A22736F6E6E6574227D', X'666978206974');
INSERT INTO contents VALUES (6, X'', X'617320612070726F6D7074');
INSERT INTO contents VALUES (7, X'7B227065726D697373696F6E4D6F6465223A22706C616E227D', X'696E20706C616E206D6F6465');
INSERT INTO contents VALUES (8, X'', X'7B0A202020202266726F6D223A2022776F726B6572222C0A202020202274657874223A202266726F6D2074686520776F726B6572222C0A202020202274696D657374616D70223A2022323032362D31312D32335431383A34393A33342E3136305A222C0A20202020226D736756223A20312C0A20202020226D73675F6964223A202237393736623039352D383866322D353231302D383764662D336665633933643663356263222C0A202020202274797065223A20226D657373616765222C0A202020202272656164223A2066616C73652C0A20202020226D6573736167654964223A20226569676874220A20207D');
INSERT INTO frames VALUES ('b48d1316-c90b-4ed9-b4d8-8dce4c72cde4', 3, 'message', '', '0b509594-3b72-44e0-b4f3-ad51d89b736a', 'done', '', 1, 0, 0, 1795459774456620);
INSERT INTO frames VALUES ('cf0a376c-95eb-4ee3-b11f-a1627e696e66', 3, 'message', '', '0b509594-3b72-44e0-b4f3-ad51d89b736a', 'done', '', 1, 0, 0, 1795459772706110);
INSERT INTO frames VALUES ('ea1f6399-f536-48ca-affd-c0c8653663c7', 3, 'message', '', '0b509594-3b72-44e0-b4f3-ad51d89b736a', 'done', '', 1, 0, 0, 1795459771601439);
INSERT INTO frames VALUES ('f1', 1, 'message', '', 'session-2', 'cut', '', 1, 1, 1, 1794819600123456);
INSERT INTO frames VALUES ('n1', 1, 'nudge', 'f1', 'session-1', 'written', '', 0, 0, 0, 1794819600123456);
INSERT INTO lines VALUES ('b48d1316-c90b-4ed9-b4d8-8dce4c72cde4', X'7B2274797065223A2275736572222C226D657373616765223A7B22726F6C65223A2275736572222C22636F6E74656E74223A223C7465616D6D6174652D6D657373616765207465616D6D6174655F69643D5C22776F726B65725C223E5C6E66726F6D2074686520776F726B65725C6E3C2F7465616D6D6174652D6D6573736167653E227D2C2275756964223A2262343864313331362D633930622D346564392D623464382D386463653463373263646534227D');
INSERT INTO lines VALUES ('cf0a376c-95eb-4ee3-b11f-a1627e696e66', X'7B2274797065223A2275736572222C226D657373616765223A7B22726F6C65223A2275736572222C22636F6E74656E74223A22696E20706C616E206D6F6465227D2C2275756964223A2263663061333736632D393565622D346565332D623131662D613136323765363936653636227D');
INSERT INTO lines VALUES ('ea1f6399-f536-48ca-affd-c0c8653663c7', X'7B2274797065223A2275736572222C226D657373616765223A7B22726F6C65223A2275736572222C22636F6E74656E74223A22617320612070726F6D7074227D2C2275756964223A2265613166363339392D663533362D343863612D616666642D633063383635333636336337227D');
INSERT INTO lines VALUES ('f1', X'7B2275756964223A226631227D');
INSERT INTO lines VALUES ('n1', X'7B2275756964223A226E31227D');
INSERT INTO sessions VALUES (1, 'session-2', 4711, 4700, '12345', 'claude -p', '5 deaths', 1794819600123456, '', '', 0, 0, X'');
INSERT INTO sessions VALUES (2, 'session-2', 4711, 4700, '12345', 'claude -p', '5 deaths', 1794819600123456, '', '', 0, 0, X'7B227065726D697373696F6E4D6F6465223A22706C616E227D');
INSERT INTO sessions VALUES (3, '0b509594-3b72-44e0-b4f3-ad51d89b736a', 0, 0, '', '/tmp/demo/agent', '', 1795459772639366, 'ended', '', 11277, 1795459774456620, X'7B227065726D697373696F6E4D6F6465223A22706C616E227D');
INSERT INTO events VALUES (1, 1, 1, 'claimed', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (2, 1, 2, 'claimed', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (3, 1, 3, 'claimed', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (4, 1, 4, 'claimed', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (5, 1, 5, 'claimed', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (6, 1, 4, 'taken_by_agent', 'gone from the file', 0, '', 1795308224666841);
INSERT INTO events VALUES (7, 1, 1, 'written', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (8, 1, 1, 'cut', '', 0, '', 1794819600123456);
INSERT INTO events VALUES (9, 3, 6, 'claimed', '', 0, '', 1795459771109875);
INSERT INTO events VALUES (10, 3, 0, 'running', '', 13036, '0b509594-3b72-44e0-b4f3-ad51d89b736a', 1795459771497168);
INSERT INTO events VALUES (11, 3, 6, 'written', '', 0, '', 1795459771512344);
INSERT INTO events VALUES (12, 3, 6, 'accepted', '', 0, '', 1795459771599170);
INSERT INTO events VALUES (13, 3, 6, 'done', '', 0, '', 1795459771601439);
INSERT INTO events VALUES (14, 3, 7, 'claimed', '', 0, '', 1795459772632072);
INSERT INTO events VALUES (15, 3, 0, 'running', '', 13392, '0b509594-3b72-44e0-b4f3-ad51d89b736a', 1795459772639366);
INSERT INTO events VALUES (16, 3, 7, 'written', '', 0, '', 1795459772690485);
INSERT INTO events VALUES (17, 3, 7, 'accepted', '', 0, '', 1795459772700774);
INSERT INTO events VALUES (18, 3, 7, 'done', '', 0, '', 1795459772706110);
INSERT INTO events VALUES (19, 3, 8, 'claimed', '', 0, '', 1795459774280222);
INSERT INTO events VALUES (20, 3, 8, 'written', '', 0, '', 1795459774410832);
INSERT INTO events VALUES (21, 3, 8, 'accepted', '', 0, '', 1795459774452869);
INSERT INTO events VALUES (22, 3, 8, 'done', '', 0, '', 1795459774456620);
INSERT INTO events VALUES (23, 3, 0, 'ended', '', 0, '0b509594-3b72-44e0-b4f3-ad51d89b736a', 1795459772639366);
INSERT INTO relays VALUES ('59a2940e-bb0a-4f61-b7b6-1c7a259149e9', '/tmp/demo/claude', 'demo', 'helper', '["/tmp/demo/agent"]', 0, '/tmp/demo', 'nudge', 'deny', X'', 1795459769575805, 0);
INSERT INTO relays VALUES ('5f3c6f5e-1111-4222-8333-123456789abc', '/r', 'blue', 'bob', '["claude","--model","a b"]', 1, '/home/dev', 'report', 'allow=Read', X'7B226D6F64656C223A22736F6E6E6574227D', 1794819600123456, 0);
INSERT INTO relays VALUES ('own', '/r', 'ours', 'boss', '["claude","--model","a b"]', 1, '/home/dev', 'report', 'allow=Read', X'7B226D6F64656C223A22736F6E6E6574227D', 1794906000123456, 1);
INSERT INTO foundings VALUES ('/r', 'ours', 7, 'boss', 's-1', '["1 2 3 host","4 5 6 host"]', 0, 1795308224693281);
INSERT INTO epochs VALUES (1, '289d3eb7ef7675ddb847bd946dc678c3');
INSERT INTO epochs VALUES (9, '0292efe4199bc4079de9b2d28749831d');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES ('events', 23);
INSERT INTO sqlite_sequence VALUES ('deliveries', 8);
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
CREATE INDEX deliveries_id ON deliveries (post, id);
PRAGMA application_id=1952599111;
PRAGMA user_version=9;
COMMIT;

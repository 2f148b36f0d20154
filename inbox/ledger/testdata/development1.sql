-- A ledger as commit 00c114b made it: version 1 of the development versions.

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
INSERT INTO sends VALUES ('/home/ann/.claude', 'blue', 1763280000000, 'bob', 'done', X'0102000000000000000000000000000000000000000000000000000000000003', 'size 12', 'written', 1794906000123456);
INSERT INTO sends VALUES ('/home/ann/.claude', 'blue', 1763280000000, 'bob', 'intended', X'0102000000000000000000000000000000000000000000000000000000000003', 'size 12', 'intent', 1794819600123456);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'one', X'7427588AD4413C00ED75EB216CF0193699D2F6C6097104A84F34C2168EE88533', '2 bytes, 1795459694994571602, 10291652', 'written', 1795459696357997);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'three', X'0832017EA954857B07992AD2FD0C8B7FDCE01AB3BBD367020699C33890259CD9', '2 bytes, 1795459698498724550, 10291596', 'written', 1795459699335670);
INSERT INTO sends VALUES ('/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'two', X'E15D91579B1E990DCC97F27DA302F06CBFA5D9E9DE760D449D6E943ABEE388E2', '2 bytes, 1795459696980178718, 10291674', 'written', 1795459697985898);
INSERT INTO joins VALUES ('/r', 'blue', 1, 'operator', 'operator@blue', 1794819600123456);
PRAGMA application_id=1952599111;
PRAGMA user_version=1;
COMMIT;

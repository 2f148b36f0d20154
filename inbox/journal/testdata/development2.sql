-- A journal as commit e05f598 made it: version 2 of the development versions.

BEGIN;
CREATE TABLE counter (
	only   INTEGER PRIMARY KEY CHECK (only = 1),
	seq    INTEGER NOT NULL, -- the last one given
	pruned INTEGER NOT NULL  -- the highest one that was deleted
) STRICT;
CREATE TABLE inboxes (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	root       TEXT    NOT NULL,
	team       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	inbox      TEXT    NOT NULL,
	first_seen INTEGER NOT NULL,
	began      INTEGER NOT NULL, -- of the newest snapshot
	ended      INTEGER NOT NULL,
	seq        INTEGER NOT NULL, -- of the last change
	UNIQUE (root, team, created_at, inbox)
) STRICT;
CREATE TABLE messages (
	seq        INTEGER PRIMARY KEY,
	inbox      INTEGER NOT NULL REFERENCES inboxes,
	digest     BLOB    NOT NULL,
	occurrence INTEGER NOT NULL,
	first_seen INTEGER NOT NULL,
	read_at    INTEGER,
	gone_at    INTEGER,
	id         TEXT    NOT NULL,
	sender     TEXT    NOT NULL,
	raw        BLOB    NOT NULL -- last: nothing else is to be looked for behind it
) STRICT;
CREATE TABLE changes ( -- but for appearing, which has the seq of the message
	seq     INTEGER PRIMARY KEY,
	kind    TEXT    NOT NULL,
	message INTEGER NOT NULL REFERENCES messages
) STRICT;
CREATE TABLE receipts (
	seq         INTEGER PRIMARY KEY, -- of the last change
	root        TEXT    NOT NULL,
	team        TEXT    NOT NULL,
	created_at  INTEGER NOT NULL,
	inbox       TEXT    NOT NULL,
	id          TEXT    NOT NULL,
	state       TEXT    NOT NULL,
	at          INTEGER NOT NULL, -- of the last change
	verified_at INTEGER,
	consumed_at INTEGER,
	lost_at     INTEGER,
	back_at     INTEGER,
	put_backs   INTEGER NOT NULL,
	reason      TEXT    NOT NULL,
	UNIQUE (root, team, created_at, inbox, id)
) STRICT;
CREATE VIRTUAL TABLE words USING fts5(sender, summary, body, tokenize='unicode61 remove_diacritics 2');
CREATE TABLE relays (
	seq        INTEGER PRIMARY KEY,
	root       TEXT    NOT NULL,
	team       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	inbox      TEXT    NOT NULL,
	at         INTEGER NOT NULL,
	delivery   TEXT    NOT NULL, -- '': it is about the relay
	id         TEXT    NOT NULL,
	sender     TEXT    NOT NULL,
	person     INTEGER NOT NULL,
	state      TEXT    NOT NULL,
	reason     TEXT    NOT NULL,
	pid        INTEGER NOT NULL,
	session    TEXT    NOT NULL,
	n          INTEGER NOT NULL
) STRICT;
CREATE TABLE copied (
	source     TEXT    PRIMARY KEY,
	n          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter VALUES (1, 29, 0);
INSERT INTO inboxes VALUES (1, '/home/ann/.claude', 'blue', 1763280000000, 'bob', 1794819601123456, 1794819602123456, 1794819602123456, 4);
INSERT INTO inboxes VALUES (2, '/tmp/demo/claude', 'demo', 1795196213317, 'worker', 1795459724164508, 1795459726322404, 1795459726322428, 14);
INSERT INTO messages VALUES (1, 1, X'382EE122650211FEE66DDB5E276BD374', 1, 1794819601123456, 1794819602123456, NULL, 'inbox-3a1cda660c2201fa', 'ann', X'7B2266726F6D223A22616E6E222C2274657874223A226E6565646C65222C2274696D657374616D70223A22323032362D31312D31365430393A30303A30302E3030305A222C226E223A312E307D');
INSERT INTO messages VALUES (2, 1, X'0D95BC57A5017929311117EF6E591B57', 1, 1794819601123456, NULL, 1794819602123456, 'inbox-4825e27d05090e13', 'ann', X'7B2266726F6D223A22616E6E222C2274657874223A2262222C2274696D657374616D70223A22323032362D31312D31365430393A30303A30302E3030305A227D');
INSERT INTO messages VALUES (8, 2, X'C0F46BDF2B35C89F9A2F39038211D420', 1, 1795459724164508, NULL, 1795459724784645, 'one', 'user', X'7B0A202020202266726F6D223A202275736572222C0A202020202274657874223A20227468652072656C65617365206B657920697320696E207468652073616665222C0A202020202274696D657374616D70223A2022323032362D31312D32335431383A34383A34342E3132325A222C0A20202020226D736756223A20312C0A20202020226D73675F6964223A202235346535643262352D633463322D353564302D396165392D656361383661636362643932222C0A202020202274797065223A20226D657373616765222C0A202020202272656164223A2066616C73652C0A20202020226D6573736167654964223A20226F6E65220A20207D');
INSERT INTO messages VALUES (12, 2, X'F8A46C535F38943C535FED5E5D91963C', 1, 1795459725807457, NULL, 1795459726322428, 'two', 'alice', X'7B0A202020202266726F6D223A2022616C696365222C0A202020202274657874223A2022616C696365207761732068657265222C0A202020202274696D657374616D70223A2022323032362D31312D32335431383A34383A34352E3739385A222C0A20202020226D736756223A20312C0A20202020226D73675F6964223A202231626261666164662D363666352D356532392D393531662D323865363439636264316135222C0A202020202274797065223A20226D657373616765222C0A202020202272656164223A2066616C73652C0A20202020226D6573736167654964223A202274776F220A20207D');
INSERT INTO changes VALUES (3, 'read', 1);
INSERT INTO changes VALUES (4, 'gone', 2);
INSERT INTO changes VALUES (10, 'gone', 8);
INSERT INTO changes VALUES (14, 'gone', 12);
INSERT INTO receipts VALUES (5, '/home/ann/.claude', 'blue', 1763280000000, 'bob', '1', 'consumed', 1794819603123456, NULL, 1794819603123456, NULL, NULL, 0, '');
INSERT INTO receipts VALUES (11, '/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'one', 'consumed', 1795459724785766, 1795459724168217, 1795459724785766, NULL, NULL, 0, '');
INSERT INTO receipts VALUES (15, '/tmp/demo/claude', 'demo', 1795196213317, 'worker', 'two', 'consumed', 1795459726323062, 1795459725811504, 1795459726323062, NULL, NULL, 0, '');
INSERT INTO words (rowid, sender, summary, body) VALUES (1, 'ann', '', 'needle');
INSERT INTO words (rowid, sender, summary, body) VALUES (2, 'ann', '', 'b');
INSERT INTO words (rowid, sender, summary, body) VALUES (8, 'user', '', 'the release key is in the safe');
INSERT INTO words (rowid, sender, summary, body) VALUES (12, 'alice', '', 'alice was here');
INSERT INTO relays VALUES (6, '/home/ann/.claude', 'blue', 1763280000000, 'bob', 1794819601123456, 'd1', 'id-d1', 'alice', 0, 'claimed', '', 0, '', 1);
INSERT INTO relays VALUES (7, '/home/ann/.claude', 'blue', 1763280000000, 'bob', 1794819604123456, '', '', '', 0, 'running', '', 4711, 's', 2);
INSERT INTO relays VALUES (16, '/home/ann/.claude', 'blue', 1763280000000, 'bob', 1794819600123456, 'cut', 'id of cut', 'ann', 0, 'claimed', '', 0, '', 1);
INSERT INTO relays VALUES (17, '/home/ann/.claude', 'blue', 1763280000000, 'bob', 1794819600123456, 'waiting', 'id of waiting', 'ann', 0, 'claimed', '', 0, '', 2);
INSERT INTO relays VALUES (18, '/home/ann/.claude', 'blue', 1763280000000, 'bob', 1794819600123456, 'unmarked', 'id of unmarked', 'ann', 0, 'claimed', '', 0, '', 3);
INSERT INTO relays VALUES (19, '/home/ann/.claude', 'blue', 1763280000000, 'bob', 1794819600123456, 'taken', 'id of taken', 'ann', 0, 'claimed', '', 0, '', 4);
INSERT INTO relays VALUES (20, '/home/ann/.claude', 'blue', 1763280000000, 'bob', 1794819600123456, 'typed', '', 'operator', 1, 'claimed', '', 0, '', 5);
INSERT INTO relays VALUES (21, '/home/ann/.claude', 'blue', 1763280000000, 'bob', 1795264471345557, 'taken', 'id of taken', 'ann', 0, 'taken_by_agent', 'gone from the file', 0, '', 6);
INSERT INTO relays VALUES (22, '/home/ann/.claude', 'blue', 1763280000000, 'bob', 1794819600123456, 'cut', 'id of cut', 'ann', 0, 'written', '', 0, '', 7);
INSERT INTO relays VALUES (23, '/home/ann/.claude', 'blue', 1763280000000, 'bob', 1794819600123456, 'cut', 'id of cut', 'ann', 0, 'cut', '', 0, '', 8);
INSERT INTO relays VALUES (24, '/tmp/demo/claude', 'demo', 1795196213317, 'helper', 1795459727229470, '', '', '', 0, 'running', '', 6116, '876386bf-39aa-4dc6-832f-c2acfbdbabcc', 9);
INSERT INTO relays VALUES (25, '/tmp/demo/claude', 'demo', 1795196213317, 'helper', 1795459728613624, '1cdd8cd2-d93b-5f61-9a10-d05f471407d0', 'four', 'user', 0, 'claimed', '', 0, '', 10);
INSERT INTO relays VALUES (26, '/tmp/demo/claude', 'demo', 1795196213317, 'helper', 1795459728722547, '1cdd8cd2-d93b-5f61-9a10-d05f471407d0', 'four', 'user', 0, 'written', '', 0, '', 11);
INSERT INTO relays VALUES (27, '/tmp/demo/claude', 'demo', 1795196213317, 'helper', 1795459728764767, '1cdd8cd2-d93b-5f61-9a10-d05f471407d0', 'four', 'user', 0, 'accepted', '', 0, '', 12);
INSERT INTO relays VALUES (28, '/tmp/demo/claude', 'demo', 1795196213317, 'helper', 1795459728771588, '1cdd8cd2-d93b-5f61-9a10-d05f471407d0', 'four', 'user', 0, 'done', '', 0, '', 13);
INSERT INTO relays VALUES (29, '/tmp/demo/claude', 'demo', 1795196213317, 'helper', 1795459727229470, '', '', '', 0, 'ended', '', 0, '876386bf-39aa-4dc6-832f-c2acfbdbabcc', 14);
INSERT INTO copied VALUES ('0b7c70c30c4ad074e5518af875b42239', 14);
INSERT INTO copied VALUES ('a-ledger', 2);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES ('inboxes', 2);
CREATE UNIQUE INDEX messages_key ON messages (inbox, digest, occurrence);
CREATE INDEX messages_inbox ON messages (inbox);
CREATE INDEX messages_id ON messages (id);
CREATE INDEX messages_present ON messages (inbox, digest, read_at) WHERE gone_at IS NULL;
CREATE INDEX messages_gone ON messages (gone_at) WHERE gone_at IS NOT NULL;
CREATE INDEX changes_message ON changes (message);
CREATE INDEX receipts_at ON receipts (at);
CREATE INDEX relays_at ON relays (at);
CREATE INDEX relays_id ON relays (id) WHERE id<>'';
PRAGMA application_id=1952598606;
PRAGMA user_version=2;
COMMIT;

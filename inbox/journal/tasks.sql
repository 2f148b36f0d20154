-- The journal, schema version 4: what became of the tasks that Claude Code keeps.

CREATE TABLE task_recordings (
	root  TEXT    PRIMARY KEY,
	began INTEGER NOT NULL, -- when they were looked at first
	until INTEGER NOT NULL  -- up to when all changes are known
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks ( -- as they were seen last
	id         INTEGER PRIMARY KEY,
	root       TEXT    NOT NULL,
	list       TEXT    NOT NULL,
	task       TEXT    NOT NULL,
	subject    TEXT    NOT NULL,
	status     TEXT    NOT NULL,
	owner      TEXT    NOT NULL,
	blocked_by TEXT    NOT NULL, -- ids, with ", " between them
	changed    INTEGER NOT NULL  -- when its file was written
) STRICT;
CREATE UNIQUE INDEX tasks_key ON tasks (root, list, task);

CREATE TABLE task_changes (
	seq     INTEGER PRIMARY KEY AUTOINCREMENT, -- not of the counter
	root    TEXT    NOT NULL,
	list    TEXT    NOT NULL,
	task    TEXT    NOT NULL,
	subject TEXT    NOT NULL,
	what    TEXT    NOT NULL,
	was     TEXT    NOT NULL,
	now     TEXT    NOT NULL,
	after   INTEGER, -- it was after this time, if it is not known exactly
	at      INTEGER NOT NULL
) STRICT;
CREATE INDEX task_changes_task ON task_changes (root, list, task);
CREATE INDEX task_changes_at ON task_changes (at);

-- The ledger, schema version 4: terminal panes, and what is typed into them. A message to
-- a pane is a user prompt; here is what it has besides.

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
CREATE INDEX pane_messages_task ON pane_messages (task) WHERE task IN ('sent', 'given', 'staged', 'armed');
CREATE INDEX pane_messages_notify ON pane_messages (seq) WHERE notify<>0 AND notified=0 AND task='ended';

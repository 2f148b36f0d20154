-- The ledger: answers that a relay sends for its agent.

-- Whether a relay answers for the agent, and why the agent was ended for good.
ALTER TABLE sessions ADD COLUMN answers   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN shut_down TEXT    NOT NULL DEFAULT '';

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

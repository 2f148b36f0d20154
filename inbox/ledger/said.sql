-- The ledger, schema version 11: messages to the person, in inboxes that are no files.
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

-- The ledger, schema version 11: what agents wrote to a person.
CREATE TABLE said (
	message    INTEGER PRIMARY KEY, -- of messages
	read_at    INTEGER NOT NULL     -- 0: it is unread
) STRICT;
CREATE TRIGGER said_forgotten AFTER DELETE ON messages BEGIN
	DELETE FROM said WHERE message=old.message;
END;
CREATE TRIGGER said_emptied AFTER UPDATE OF raw ON messages WHEN new.raw=x'' BEGIN
	DELETE FROM said WHERE message=new.message;
END;

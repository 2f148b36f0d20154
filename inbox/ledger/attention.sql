-- The ledger, schema version 3: what waits for a person and was dismissed.

CREATE TABLE dismissed (
	root       TEXT    NOT NULL,
	id         TEXT    NOT NULL, -- of what waits
	at         INTEGER NOT NULL,
	PRIMARY KEY (root, id)
) STRICT, WITHOUT ROWID;

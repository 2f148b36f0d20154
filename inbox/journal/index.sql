-- The search index, in a file of its own. A rowid is the seq of a message or an envelope of the journal.
CREATE VIRTUAL TABLE words USING fts5(
	sender, summary, body,
	signs, -- a word for each character that no word of the others has, such as x1f389, and one for the root and for the team
	tokenize='unicode61 remove_diacritics 2'
);

-- How far it has come in the journal: see Position.
CREATE TABLE indexed (
	only  INTEGER PRIMARY KEY CHECK (only = 1),
	epoch TEXT,
	seq   INTEGER NOT NULL
) STRICT;
INSERT INTO indexed VALUES (1, NULL, 0);

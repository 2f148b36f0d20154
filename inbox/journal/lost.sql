-- The journal, schema version 3: the messages that wait for a person are found without
-- reading all receipts.

CREATE INDEX receipts_lost ON receipts (root, team, created_at) WHERE state IN ('lost', 'unknown');

-- The ledger, schema version 6: relays of agents that are not Claude Code, and profiles.

ALTER TABLE relays ADD COLUMN runtime TEXT NOT NULL DEFAULT ''; -- '': Claude Code
ALTER TABLE relays ADD COLUMN profile TEXT NOT NULL DEFAULT '';
ALTER TABLE relays ADD COLUMN url TEXT NOT NULL DEFAULT ''; -- of a server that runs already
ALTER TABLE relays ADD COLUMN password_file TEXT NOT NULL DEFAULT '';

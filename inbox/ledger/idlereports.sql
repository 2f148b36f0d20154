-- The ledger, schema version 13: which reports of idle agents a relay delivers.
ALTER TABLE relays ADD COLUMN idle_reports TEXT NOT NULL DEFAULT '';

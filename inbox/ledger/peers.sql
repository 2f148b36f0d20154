-- The ledger, schema version 10: sessions of Claude Code that are reached through their own
-- sockets are panes of the team "sessions". Of one, socket is its own, server is 0, pane is the id of
-- its session, and pid and start are its process.
ALTER TABLE panes ADD COLUMN start TEXT NOT NULL DEFAULT '';
ALTER TABLE panes ADD COLUMN cwd   TEXT NOT NULL DEFAULT '';

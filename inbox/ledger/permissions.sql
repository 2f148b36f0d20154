-- What an agent last reported of its permissions. Its session forgets it when the agent is started again.
ALTER TABLE sessions ADD COLUMN permission_mode TEXT NOT NULL DEFAULT '';

-- The ledger, schema version 5: events of messages to panes, besides those of their
-- deliveries: held, when something else holds one, given, when the agent's transcript shows
-- that it was given one, and finished, when it was seen that the task of one ended.

CREATE TRIGGER pane_messages_held AFTER UPDATE OF held ON pane_messages WHEN new.held<>old.held AND new.held<>'' BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		SELECT inbox_id, new.seq, 'held', new.detail, 0, '', new.held_since FROM deliveries WHERE seq=new.seq;
END;
CREATE TRIGGER pane_messages_task AFTER UPDATE OF task ON pane_messages
	WHEN new.task<>old.task AND (new.task='given' OR new.task='ended' AND new.lost='') BEGIN
	INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at)
		SELECT inbox_id, new.seq, iif(new.task='given', 'given', 'finished'), '', 0, '', new.task_at FROM deliveries WHERE seq=new.seq;
END;

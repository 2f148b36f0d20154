package journal

import (
	"context"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Rename gives an inbox another name, and its owner the same name as the sender of messages in the inboxes of the
// team. [Record.Raw] does not change. If an inbox has the name already, the messages of both are joined.
func (j Messages) Rename(ctx context.Context, k inbox.InboxKey, name string) error {
	return j.db.Transaction(ctx, "rename", "IMMEDIATE", func(c *sqlite.Conn) error {
		clear(j.views)
		j.held = 0
		args := inboxArgs(k, name)
		const team = " WHERE root=?2 AND team=?3 AND created_at=?4"
		const written = "sender=?5 AND inbox IN (SELECT id FROM inboxes" + team + ")"
		const move = " SET inbox=(SELECT id FROM inboxes" + team + " AND inbox=?1) WHERE inbox=(SELECT id FROM inboxes" + team + " AND inbox=?5)"
		for _, change := range []string{
			"UPDATE OR IGNORE inboxes SET inbox=?1" + team + " AND inbox=?5", "UPDATE OR IGNORE messages" + move, "UPDATE OR IGNORE envelopes" + move,
			"UPDATE OR IGNORE receipts SET inbox=?1" + team + " AND inbox=?5",
			"UPDATE relay_events SET inbox=?1" + team + " AND inbox=?5",
			"UPDATE relay_events SET sender=?1" + team + " AND sender=?5",
			"INSERT INTO stale (seq) SELECT seq FROM messages WHERE " + written,
			"INSERT INTO stale (seq) SELECT seq FROM envelopes WHERE inbox IN (SELECT id FROM inboxes" + team + " AND inbox IN (?1, ?5))",
			"UPDATE messages SET sender=?1 WHERE " + written,
		} {
			if _, err := c.Exec(change, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

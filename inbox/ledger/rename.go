package ledger

import (
	"context"
	"fmt"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// RenameSession gives a recorded session another name, durably, with the messages to it and its messages to the
// person. It fails with [ErrUnknown] if k is no session. It fails with [ErrConflict] if another inbox has the name,
// or if a message to the session is on its way, since a process that delivers it holds a lock with the old name.
func (l Panes) RenameSession(ctx context.Context, k inbox.InboxKey, name string) error {
	to := k
	to.Inbox = name
	if err := checkInbox(to); err != nil {
		return err
	}
	return l.write(ctx, "rename session", durable, func(c *sqlite.Conn) error {
		id, err := c.Number("SELECT inbox_id FROM inboxes JOIN panes USING (inbox_id) WHERE "+thisInbox, inboxArgs(k)...)
		if err != nil {
			return err
		}
		other, err := inboxNumber(c, to)
		if err != nil {
			return err
		}
		open, err := c.Number("SELECT count(*) FROM deliveries WHERE inbox_id=? AND "+unended, id)
		switch {
		case err != nil:
			return err
		case id == 0 || k.Team != SessionTeam:
			return fmt.Errorf("ledger: rename %s: it is no session: %w", k.Inbox, ErrUnknown)
		case other == id:
			return nil
		case other != 0:
			return fmt.Errorf("ledger: rename %s: another one is called %s: %w", k.Inbox, name, ErrConflict)
		case open != 0:
			return fmt.Errorf("ledger: rename %s: a message to it is on its way: %w", k.Inbox, ErrConflict)
		}
		for _, change := range []string{
			"UPDATE sends SET inbox=? WHERE " + thisInbox,
			"UPDATE inboxes SET inbox=? WHERE " + thisInbox,
			`UPDATE said SET sender=? WHERE message IN (SELECT message FROM said JOIN messages USING (message) JOIN inboxes USING (inbox_id)
				WHERE root=? AND team=? AND created_at=? AND sender=?)`,
		} {
			if _, err := c.Exec(change, inboxArgs(k, name)...); err != nil {
				return err
			}
		}
		return nil
	})
}

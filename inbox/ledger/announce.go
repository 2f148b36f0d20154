package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// The commit of an intent keeps the row for the history, as pending: an agent may take a row before any reader sees
// it.

// unknownAfter is the age at which a message that was neither written nor withdrawn becomes unknown. Its sender was
// killed: a sender that is alive gives up after seconds.
const unknownAfter = time.Minute

// addSent keeps the row of a message that is about to be written, and returns its number, or 0 without a row.
func addSent(c *sqlite.Conn, s Send) (int64, error) {
	if len(s.Row) == 0 {
		return 0, nil
	}
	inboxID, err := addInbox(c, s.InboxKey)
	if err != nil {
		return 0, err
	}
	now := time.Now().UnixMicro()
	n, err := c.Number("INSERT INTO messages (inbox_id, frame, at, raw) VALUES (?, '', ?, ?) RETURNING message", inboxID, now, s.Row)
	if err != nil {
		return 0, err
	}
	_, err = c.Exec("INSERT INTO pending (message, at) VALUES (?, ?)", n, now)
	return n, err
}

// messageOf is the number of the message of a send.
const messageOf = "(SELECT message FROM sends WHERE message<>0 AND " + thisSend + ")"

// dropSent forgets the message of an intent that was certainly not written. A message that has an event stays.
func dropSent(c *sqlite.Conn, key SendKey) error {
	for _, query := range []string{
		"DELETE FROM messages WHERE message=" + messageOf + " AND message IN (SELECT message FROM pending)",
		"DELETE FROM pending WHERE message=" + messageOf,
	} {
		if _, err := c.Exec(query, keyArgs(key)...); err != nil {
			return err
		}
	}
	return nil
}

// sentWritten records the event that the message of a send was read back.
func sentWritten(c *sqlite.Conn, key SendKey, at time.Time) error {
	if _, err := c.Exec("INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at, message) "+
		"SELECT inbox_id, 0, 'written', '', 0, '', ?, message FROM messages WHERE message="+messageOf, keyArgs(key, at.UnixMicro())...); err != nil {
		return err
	}
	_, err := c.Exec("DELETE FROM pending WHERE message="+messageOf, keyArgs(key)...)
	return err
}

// Announce records an event for each sent message that has none after a minute: its fate is unknown.
func (l Sends) Announce(ctx context.Context) error {
	old := time.Now().Add(-unknownAfter).UnixMicro()
	// Mostly there are none. This query sees that without a lock that others wait for.
	n, err := l.db.Number(ctx, "announce", "SELECT count(*) FROM (SELECT 1 FROM pending WHERE at<? LIMIT 1)", old)
	if err != nil || n == 0 {
		return err
	}
	return l.write(ctx, "announce", quick, func(c *sqlite.Conn) error {
		_, err := c.Exec(`INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at, message)
			SELECT inbox_id, 0, 'unknown', '', 0, '', p.at, message FROM pending p JOIN messages USING (message) WHERE p.at<? ORDER BY p.at, message`, old)
		if err != nil {
			return err
		}
		_, err = c.Exec("DELETE FROM pending WHERE at<?", old)
		return err
	})
}

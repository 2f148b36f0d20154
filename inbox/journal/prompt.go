package journal

import (
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// prompted records a user prompt to a headless agent as a message to its inbox, once: a
// failed delivery can be claimed again.
//
// It was never in the file, so the view of the file does not change, and the message
// counts as gone from the start. Otherwise the next look at the file would miss it.
func prompted(c *sqlite.Conn, n *numbers, e *RelayEvent) error {
	if len(e.Row) == 0 {
		return nil
	}
	return unfiled(c, n, e, "prompts", "delivery", e.Delivery)
}

// answered records an agent's answer as a message of its inbox, in the same way.
func answered(c *sqlite.Conn, n *numbers, e *RelayEvent) error {
	return unfiled(c, n, e, "answers", "frame", e.Answer)
}

// unfiled records a message that was never in a file, once for each id in a column of table.
func unfiled(c *sqlite.Conn, n *numbers, e *RelayEvent, table, column, id string) error {
	if known, err := c.Number("SELECT count(*) FROM "+table+" WHERE "+column+"=?", id); err != nil || known > 0 {
		return err
	}
	var m Record
	m.set(e.Row)
	box, _, _, err := boxOf(c, e.InboxKey, e.At)
	if err != nil {
		return err
	}
	sum := digestOf(&m.Row)
	ever, err := occurrences(c, box, sum)
	if err != nil {
		return err
	}
	m.Seq, m.Occurrence, m.FirstSeen, m.GoneAt = n.next(), ever+1, e.At, e.At
	if err := insert(c, box, sum, &m, &m.Row); err != nil {
		return err
	}
	_, err = c.Exec("INSERT INTO "+table+" (message, "+column+") VALUES (?, ?)", m.Seq, id)
	return err
}

// boxOf returns the number of an inbox, which is made if there is none, and when the newest
// look at its file began and ended: 0 if nobody looked at it, so that the next look is newer.
func boxOf(c *sqlite.Conn, k inbox.InboxKey, at time.Time) (box, began, ended int64, err error) {
	if _, err := c.Exec(`INSERT INTO inboxes (root, team, created_at, inbox, first_seen, began, ended, seq)
		VALUES (?, ?, ?, ?, ?, 0, 0, 0) ON CONFLICT DO NOTHING`, append(inboxArgs(k), at.UnixMicro())...); err != nil {
		return 0, 0, 0, err
	}
	err = c.Query(func(v sqlite.Row) { box, began, ended = v.Int(0), v.Int(1), v.Int(2) },
		"SELECT id, began, ended FROM inboxes WHERE "+thisInbox, inboxArgs(k)...)
	return box, began, ended, err
}

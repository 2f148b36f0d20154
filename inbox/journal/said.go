package journal

import "teambridge/inbox/sqlite"

// said records what a person said to a headless agent as a message to its inbox,
// if that was not done before: a delivery that failed can be claimed again.
//
// It is no row of the file. So the journal's view of the file stays what it is,
// and the message counts as gone from the beginning, or the next look at the file
// would find it missing.
func said(c *sqlite.Conn, n *numbers, e *RelayEvent) error {
	if len(e.Row) == 0 {
		return nil
	}
	return unfiled(c, n, e, "prompts", "delivery", e.Delivery)
}

// answered records what an agent answered as a message of its inbox, in the same way.
func answered(c *sqlite.Conn, n *numbers, e *RelayEvent) error {
	return unfiled(c, n, e, "answers", "frame", e.Answer)
}

// unfiled records a message that is in no file, once for each id in a column of table.
func unfiled(c *sqlite.Conn, n *numbers, e *RelayEvent, table, column, id string) error {
	if known, err := c.Number("SELECT count(*) FROM "+table+" WHERE "+column+"=?", id); err != nil || known > 0 {
		return err
	}
	var m Message
	m.set(e.Row)
	box, _, _, err := boxOf(c, e)
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

// boxOf returns the number of the inbox that an event is about, and when the newest
// look at its file began and ended: 0 where nobody looked at it, so that anything that
// is seen of the file is newer.
func boxOf(c *sqlite.Conn, e *RelayEvent) (box, began, ended int64, err error) {
	p := place{e.Root, e.Team.Team, e.Team.CreatedAt, e.Inbox}
	if _, err := c.Exec(`INSERT INTO inboxes (root, team, created_at, inbox, first_seen, began, ended, seq)
		VALUES (?, ?, ?, ?, ?, 0, 0, 0) ON CONFLICT DO NOTHING`, append(p.args(), e.At.UnixMicro())...); err != nil {
		return 0, 0, 0, err
	}
	err = c.Query(func(v []sqlite.Value) error {
		box, _ = v[0].(int64)
		began, _ = v[1].(int64)
		ended, _ = v[2].(int64)
		return nil
	}, "SELECT id, began, ended FROM inboxes WHERE root=? AND team=? AND created_at=? AND inbox=?", p.args()...)
	return box, began, ended, err
}

package journal

import (
	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// sent records a row that we put into an inbox, and its receipt.
func sent(c *sqlite.Conn, n *numbers, e *RelayEvent) error {
	m, err := stood(c, n, e, e.State == string(Verified))
	if err != nil {
		return err
	}
	const unknown = "its sender ended before it was known whether it is in the inbox"
	_, err = updateReceipt(c, n, inbox.SendKey{InboxKey: e.InboxKey, ID: m.ID()}, State(e.State), e.At, unknown, nil)
	return err
}

// claimed records a row that a relay claimed.
func claimed(c *sqlite.Conn, n *numbers, e *RelayEvent) error {
	if len(e.Row) == 0 {
		return nil
	}
	_, err := stood(c, n, e, true)
	return err
}

// stood records the row of e, unless the inbox had an equal one: whoever saw that in the
// file saw this row. Only rows without an id can be equal and not the same; those are left
// to the tap. A row that was certainly in the file, and that the newest look did not find
// later, is gone. About any other the next look decides.
func stood(c *sqlite.Conn, n *numbers, e *RelayEvent, certain bool) (m Record, err error) {
	m.set(e.Row)
	box, began, ended, err := boxOf(c, e.InboxKey, e.At)
	if err != nil {
		return m, err
	}
	sum := digestOf(&m.Row)
	ever, err := occurrences(c, box, sum)
	if err != nil || ever > 0 {
		return m, err
	}
	at := e.At.UnixMicro()
	m.Seq, m.Occurrence, m.FirstSeen = n.next(), 1, e.At
	m.Row.Read = false
	if err := insert(c, box, sum, &m, &m.Row); err != nil {
		return m, err
	}
	if certain && began >= at {
		if _, err := changed(c, n, Gone, m.Seq, "UPDATE messages SET gone_at=? WHERE seq=?", ended); err != nil {
			return m, err
		}
	}
	// The number tells those who hold a view of the inbox that it is not up to date.
	_, err = c.Exec("UPDATE inboxes SET ended=?, seq=? WHERE id=?", max(ended, at), n.last, box)
	return m, err
}

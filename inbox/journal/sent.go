package journal

import (
	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// sent records a row that we put into an inbox, and its receipt. It is a message once:
// whoever saw it in the file, before or after, saw this row, since its id and its time
// are no other row's.
//
// That it was read back is a look at the file at one time. So if the newest look began
// after it and did not find the row, the row is gone. Otherwise it stands in the file
// until somebody looks again, and what was read before that time does not end it.
//
// A row of which it is not known whether it was written may have been written after the
// newest look. So it is for the next one to say whether it is there.
func sent(c *sqlite.Conn, n *numbers, e *Relayed) error {
	var m Message
	m.set(e.Row)
	box, began, ended, err := boxOf(c, e)
	if err != nil {
		return err
	}
	sum := digestOf(&m.Row)
	ever, err := occurrences(c, box, sum)
	if err != nil {
		return err
	}
	if ever == 0 {
		at := e.At.UnixMicro()
		m.Seq, m.Occurrence, m.FirstSeen = n.next(), 1, e.At
		m.Row.Read = false
		if err := insert(c, box, sum, &m, &m.Row); err != nil {
			return err
		}
		if began >= at && e.State == string(Verified) {
			if _, err := changed(c, n, Gone, m.Seq, "UPDATE messages SET gone_at=? WHERE seq=?", ended); err != nil {
				return err
			}
		}
		// The number tells those who hold a view of the inbox that it is not up to date.
		if _, err := c.Exec("UPDATE inboxes SET ended=?, seq=? WHERE id=?", max(ended, at), n.last, box); err != nil {
			return err
		}
	}
	change := toVerified(e.At)
	if e.State == string(Unknown) {
		change = toLost(Unknown, e.At, "its sender ended before it was known whether it is in the inbox")
	}
	_, err = settle(c, n, inbox.SendKey{Root: e.Root, Team: e.Team.Team, CreatedAt: e.Team.CreatedAt, Inbox: e.Inbox, ID: m.ID()}, e.At, nil, change)
	return err
}

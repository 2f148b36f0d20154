package ledger

import (
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// checkInbox checks a key: Root, Team and Inbox must hold something, and at most 4 KiB each.
func checkInbox(k inbox.InboxKey) error {
	return names("root", k.Root, "team", k.Team, "inbox", k.Inbox)
}

// inboxArgs returns before and the arguments of thisInbox.
func inboxArgs(k inbox.InboxKey, before ...sqlite.Value) []sqlite.Value {
	return append(before, k.Root, k.Team, k.CreatedAt, k.Inbox)
}

// thisInbox is the condition that a row of the table inboxes has a key, and
// thisInboxID the number of that row. It is NULL if there is none.
const (
	thisInbox   = "root=? AND team=? AND created_at=? AND inbox=?"
	thisInboxID = "(SELECT inbox_id FROM inboxes WHERE " + thisInbox + ")"
)

// inboxNumber returns the number of an inbox in the tables, 0 if it has none.
func inboxNumber(c *sqlite.Conn, k inbox.InboxKey) (int64, error) {
	return c.Number("SELECT inbox_id FROM inboxes WHERE "+thisInbox, inboxArgs(k)...)
}

// addInbox is inboxNumber, and gives the inbox a number if it has none.
func addInbox(c *sqlite.Conn, k inbox.InboxKey) (int64, error) {
	if n, err := inboxNumber(c, k); err != nil || n != 0 {
		return n, err
	}
	return c.Number("INSERT INTO inboxes (root, team, created_at, inbox) VALUES (?, ?, ?, ?) RETURNING inbox_id", inboxArgs(k)...)
}

// scanKey reads root, team, created_at and inbox from column i on.
func scanKey(v sqlite.Row, i int) inbox.InboxKey {
	return inbox.InboxKey{Root: v.Text(i), Team: v.Text(i + 1), CreatedAt: v.Int(i + 2), Inbox: v.Text(i + 3)}
}

// micros returns the time to record; for the zero time, now.
func micros(t time.Time) int64 {
	if t.IsZero() {
		t = time.Now()
	}
	return t.UnixMicro()
}

// placeholders returns "?, ?, …".
func placeholders(n int) string {
	return strings.TrimSuffix(strings.Repeat("?, ", n), ", ")
}

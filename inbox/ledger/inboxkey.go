package ledger

import (
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// checkInbox checks a key: Root, Team and Inbox must not be blank, and have at most 4 KiB each.
func checkInbox(k inbox.InboxKey) error {
	return names("root", k.Root, "team", k.Team, "inbox", k.Inbox)
}

// inboxArgs returns before and the arguments of thisInbox.
func inboxArgs(k inbox.InboxKey, before ...sqlite.Value) []sqlite.Value {
	return append(before, k.Root, k.Team, k.CreatedAt, k.Inbox)
}

// thisInbox is the condition that a row of the table inboxes has a key. thisInboxID is the number of that row, or
// NULL.
const (
	thisInbox   = "root=? AND team=? AND created_at=? AND inbox=?"
	thisInboxID = "(SELECT inbox_id FROM inboxes WHERE " + thisInbox + ")"
)

// inboxNumber returns the number of an inbox in the tables, or 0.
func inboxNumber(c *sqlite.Conn, k inbox.InboxKey) (int64, error) {
	return c.Number("SELECT inbox_id FROM inboxes WHERE "+thisInbox, inboxArgs(k)...)
}

// addInbox returns the number of an inbox, and assigns one if it has none.
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

// micros returns a time in its recorded form. The zero time means now.
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

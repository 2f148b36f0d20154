package ledger

import (
	"strings"
	"time"

	"teambridge/inbox/sqlite"
	"teambridge/teams"
)

// An InboxKey is one inbox: of one member of one team instance of one Claude root. Root,
// Team and Inbox must hold something, and at most 4 KiB each.
type InboxKey struct {
	Root      string // real path of the Claude root
	Team      string
	CreatedAt int64  // of the team, in milliseconds
	Inbox     string // the member's name
}

// Key returns the key of an inbox of a team.
func Key(root string, team teams.Instance, inbox string) InboxKey {
	return InboxKey{Root: root, Team: team.Team, CreatedAt: team.CreatedAt, Inbox: inbox}
}

// KeyOf returns the key of the inbox of a member, by the name that config.json has for it.
func KeyOf(t *teams.Team, c *teams.Config, member string) InboxKey {
	return Key(t.Root().Path(), c.Instance(), member)
}

// InboxOf returns the key of the inbox that a message was sent to.
func InboxOf(k SendKey) InboxKey {
	return InboxKey{Root: k.Root, Team: k.Team, CreatedAt: k.CreatedAt, Inbox: k.Inbox}
}

func (k InboxKey) check() error {
	return names("root", k.Root, "team", k.Team, "inbox", k.Inbox)
}

// args returns before and the arguments of thisInbox.
func (k InboxKey) args(before ...sqlite.Value) []sqlite.Value {
	return append(before, k.Root, k.Team, k.CreatedAt, k.Inbox)
}

// thisInbox is the condition that a row of the table inboxes is that of a key, and
// thisInboxID the number of that row. It is NULL if there is none.
const (
	thisInbox   = "root=? AND team=? AND created_at=? AND inbox=?"
	thisInboxID = "(SELECT inbox_id FROM inboxes WHERE " + thisInbox + ")"
)

// number returns the number of the inbox in the tables, 0 if it has none.
func (k InboxKey) number(c *sqlite.Conn) (int64, error) {
	return c.Number("SELECT inbox_id FROM inboxes WHERE "+thisInbox, k.args()...)
}

// add is number, and gives the inbox a number if it has none.
func (k InboxKey) add(c *sqlite.Conn) (int64, error) {
	if n, err := k.number(c); err != nil || n != 0 {
		return n, err
	}
	return c.Number("INSERT INTO inboxes (root, team, created_at, inbox) VALUES (?, ?, ?, ?) RETURNING inbox_id", k.args()...)
}

// scanKey reads root, team, created_at and inbox from column i on.
func scanKey(v sqlite.Row, i int) InboxKey {
	return InboxKey{Root: v.Text(i), Team: v.Text(i + 1), CreatedAt: v.Int(i + 2), Inbox: v.Text(i + 3)}
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

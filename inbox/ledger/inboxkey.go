package ledger

import (
	"strings"
	"time"

	"teambridge/inbox/sqlite"
)

// An InboxKey is one relayed inbox: of one member of one team instance of one Claude
// root. Root, Team and Inbox must hold something, and at most 4 KiB each.
type InboxKey struct {
	Root      string // real path of the Claude root
	Team      string
	CreatedAt int64  // of the team, in milliseconds
	Inbox     string // the member's name
}

func (p InboxKey) check() error {
	return names(field{"root", p.Root}, field{"team", p.Team}, field{"inbox", p.Inbox})
}

func (p InboxKey) args(before ...sqlite.Value) []sqlite.Value {
	return append(before, p.Root, p.Team, p.CreatedAt, p.Inbox)
}

// number gives the number of the inbox in the tables, 0 if it has none.
func (p InboxKey) number(c *sqlite.Conn) (int64, error) {
	s, err := c.Statement("SELECT inbox_id FROM inboxes WHERE root=? AND team=? AND created_at=? AND inbox=?")
	if err != nil {
		return 0, err
	}
	var n int64
	err = s.Query(func(v []sqlite.Value) error {
		n = integer(v[0])
		return nil
	}, p.args()...)
	return n, err
}

// add is number, and gives the inbox one if it has none.
func (p InboxKey) add(c *sqlite.Conn) (int64, error) {
	if n, err := p.number(c); err != nil || n != 0 {
		return n, err
	}
	if _, err := c.Exec("INSERT INTO inboxes (root, team, created_at, inbox) VALUES (?, ?, ?, ?)", p.args()...); err != nil {
		return 0, err
	}
	return p.number(c)
}

// The columns are STRICT: a value of another type is NULL, or not ours.

func text(v sqlite.Value) string {
	s, _ := v.(string)
	return s
}

func integer(v sqlite.Value) int64 {
	n, _ := v.(int64)
	return n
}

func blob(v sqlite.Value) []byte {
	b, _ := v.([]byte)
	if len(b) == 0 {
		return nil
	}
	return b
}

func moment(v sqlite.Value) time.Time { return time.UnixMicro(integer(v)).UTC() }

// micros is the time to record; for the zero time, now.
func micros(t time.Time) int64 {
	if t.IsZero() {
		t = time.Now()
	}
	return t.UnixMicro()
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// notNil keeps a nil slice from becoming NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// placeholders is "?, ?, …".
func placeholders(n int) string {
	return strings.TrimSuffix(strings.Repeat("?, ", n), ", ")
}

package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Person has the messages to the person without files, and dismissed items. The tables are said and dismissed.
type Person struct{ *file }

// MaxUnread is the largest number of unread messages of one sender. All senders on another machine share one limit,
// since their names are only a claim of the machine.
const MaxUnread = 500

// ErrUnread means that a sender has [MaxUnread] unread messages.
var ErrUnread = fmt.Errorf("%d of its messages are unread", MaxUnread)

// A Said is a message to the person, in an inbox of the ledger.
type Said struct {
	Key  inbox.InboxKey // of the inbox
	From string
	Raw  []byte // in the format of an inbox row
	At   time.Time
	Read bool
}

// AddSaid records a message to the person in the inbox to, durably and once for each id. again is true if it was
// recorded before. summary may be "". AddSaid fails with *[ValueError], [ErrUnread] and, for an id of another
// message, [inbox.ErrIDTaken].
func (l Person) AddSaid(ctx context.Context, to inbox.InboxKey, from, id, text, summary string) (again bool, err error) {
	if err := names("root", to.Root, "team", to.Team, "inbox", to.Inbox, "from", from, "id", id); err != nil {
		return false, err
	}
	at := micros(time.Time{})
	a := newAnswer(from, id, text, at)
	a.Summary = summary
	raw, err := a.row()
	if err != nil {
		return false, err
	}
	err = l.write(ctx, "said", durable, func(c *sqlite.Conn) error {
		inboxID, err := addInbox(c, to)
		if err != nil {
			return err
		}
		before, err := sqlite.All(c, func(v sqlite.Row) []byte { return v.Blob(0) }, "SELECT raw FROM messages WHERE inbox_id=? AND frame=?", inboxID, id)
		if again = len(before) > 0; again && err == nil {
			var was answer
			if err := json.Unmarshal(before[0], &was); err != nil || was.From != from || was.Text != a.Text {
				return cmp.Or(err, inbox.ErrIDTaken)
			}
			return nil
		}
		if err != nil {
			return err
		}
		count, by := "SELECT count(*) FROM said WHERE sender=? AND read_at=0", from
		if i := strings.IndexByte(to.Team, '@'); i >= 0 && to.CreatedAt == MachineTeamCreated {
			count, by = `SELECT count(*) FROM said JOIN messages USING (message) JOIN inboxes USING (inbox_id)
				WHERE read_at=0 AND created_at=1 AND substr(team, instr(team, '@'))=?`, to.Team[i:]
		}
		if n, err := c.Number(count, by); err != nil || n >= MaxUnread {
			return cmp.Or(err, ErrUnread)
		}
		n, err := c.Number("INSERT INTO messages (inbox_id, frame, at, raw) VALUES (?, ?, ?, ?) RETURNING message", inboxID, id, at, raw)
		if err != nil {
			return err
		}
		_, err = c.Exec("INSERT INTO said (message, sender, read_at) VALUES (?, ?, 0)", n, from)
		return err
	})
	return again && err == nil, err
}

// Said returns the messages to the person of a Claude root, or of every root if root is "": by inbox, the oldest
// first.
func (l Person) Said(ctx context.Context, root string) ([]Said, error) {
	return sqlite.Select(ctx, l.db, "said", func(v sqlite.Row) Said {
		return Said{scanKey(v, 0), v.Text(4), v.Blob(5), v.Time(6), v.Int(7) != 0}
	}, `SELECT root, team, created_at, inbox, sender, raw, messages.at, read_at
		FROM said JOIN messages USING (message) JOIN inboxes USING (inbox_id) WHERE ?1='' OR root=?1 ORDER BY inbox_id, message`, root)
}

// SaidVersion returns a text that changes whenever the result of [Person.Said] changes.
func (l Person) SaidVersion(ctx context.Context) (version string, err error) {
	list, err := sqlite.Select(ctx, l.db, "said version", func(v sqlite.Row) string { return v.Text(0) },
		"SELECT count(*) || '/' || coalesce(max(message), 0) || '/' || count(nullif(read_at, 0)) FROM said")
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0], nil
}

// ReadSaid records, durably, that the person has read messages, by their ids, and returns how many were unread.
func (l Person) ReadSaid(ctx context.Context, root string, ids ...string) (n int, err error) {
	err = l.write(ctx, "read said", durable, func(c *sqlite.Conn) error {
		n = 0
		for _, id := range ids {
			changed, err := c.Exec(`UPDATE said SET read_at=? WHERE read_at=0 AND message=(
				SELECT message FROM messages JOIN inboxes USING (inbox_id) WHERE frame=? AND root=?)`, micros(time.Time{}), id, root)
			if err != nil {
				return err
			}
			n += int(changed)
		}
		return nil
	})
	return n, err
}

package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// A Said is a message that an agent wrote to a person, not to an inbox.
type Said struct {
	InboxKey        // whose agent has written it
	ID       string // that [Ledger.AddSaid] was given
	Raw      []byte // in the format of an inbox row
	At       time.Time
	Read     bool // by the person
}

// AddSaid records, durably and once under an id, what an agent wrote to a person without being asked: an answer to
// nothing. The summary is what there is to say of it, or "". It fails with *[ValueError].
func (l *Ledger) AddSaid(ctx context.Context, k InboxKey, id, text, summary string) error {
	if err := names("root", k.Root, "team", k.Team, "inbox", k.Inbox, "id", id); err != nil {
		return err
	}
	return l.write(ctx, "said", durable, func(c *sqlite.Conn) error {
		if _, err := k.add(c); err != nil {
			return err
		}
		n, err := addAnswerTo(c, Frame{UUID: id, InboxKey: k}, nil, text, summary, micros(time.Time{}))
		if err != nil || n == 0 {
			return err
		}
		_, err = c.Exec("INSERT INTO said (message, read_at) VALUES (?, 0)", n)
		return err
	})
}

// Said returns what agents of a team wrote to the person, the oldest first.
func (l *Ledger) Said(ctx context.Context, root, team string) ([]Said, error) {
	return sqlite.Select(ctx, l.db, "said", func(v sqlite.Row) Said {
		return Said{InboxKey{v.Text(0), v.Text(1), v.Int(2), v.Text(3)}, v.Text(4), v.Blob(5), v.Time(6), v.Int(7) != 0}
	}, `SELECT root, team, created_at, inbox, frame, raw, messages.at, read_at
		FROM said JOIN messages USING (message) JOIN inboxes USING (inbox_id) WHERE root=? AND team=? ORDER BY message`, root, team)
}

// ReadSaid records, durably, that the person has read messages that agents wrote, and returns how many of them
// had been unread.
func (l *Ledger) ReadSaid(ctx context.Context, root string, ids ...string) (n int, err error) {
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

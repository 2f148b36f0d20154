package ledger

import (
	"context"

	"teambridge/inbox/sqlite"
)

// doubted is what Before says of a message that was written and whose row is gone
// for no known reason. It is no state of a file, so that whoever sends the message
// again learns that it is not known what became of it, and can force it.
const doubted = "doubted"

// MarkUnknown takes back that a message was written: its row vanished, and nothing shows
// that its agent took it. From then on it counts as one of which it is not known
// whether it was sent, [inbox.ErrUnknown], and it can be sent again by force. A
// message that is not known, or is about to be written, stays as it is.
func (l *Ledger) MarkUnknown(ctx context.Context, key SendKey) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return l.db.Do(ctx, "doubt", func(c *sqlite.Conn) error {
		if err := quick(c); err != nil {
			return err
		}
		_, err := c.Exec(`UPDATE sends SET state='intent', before=?
			WHERE root=? AND team=? AND created_at=? AND inbox=? AND id=? AND state='written'`, keyArgs(key, doubted)...)
		return err
	})
}

// WithID lists the deliveries of rows of an inbox that have that id, in the order
// of claiming.
func (l *Ledger) WithID(ctx context.Context, p InboxKey, id string) ([]Delivery, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return l.deliveries(ctx, "with id", "root=? AND team=? AND created_at=? AND inbox=? AND id=? AND person=0 ORDER BY seq",
		append(p.args(), id)...)
}

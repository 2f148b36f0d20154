package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"teambridge/inbox/sqlite"
)

// AddPrompt claims a user prompt as [Ledger.Claim] does. The same commit records that the
// message of its ID was sent, so that neither the prompt nor a row with that ID is sent a
// second time. digest tells messages of one ID apart.
//
// A second call returns the delivery in its present state, without its text, and again is
// true. AddPrompt fails with [ErrConflict] if the ID belongs to another message, with
// [ErrWritten] if this message was put into the inbox as a row, or was about to be (only
// the file can tell), and with *[ValueError].
func (l *Ledger) AddPrompt(ctx context.Context, d Delivery, digest [32]byte) (said Delivery, again bool, err error) {
	key := SendKey{Root: d.Root, Team: d.Team, CreatedAt: d.CreatedAt, Inbox: d.Inbox, ID: d.ID}
	if !d.Person {
		return Delivery{}, false, invalid("delivery", "is no person's input")
	}
	if err := cmp.Or(checkKey(key), d.check()); err != nil {
		return Delivery{}, false, err
	}
	err = l.write(ctx, "say", durable, func(c *sqlite.Conn) error {
		_, there, err := delivery(c, d.UUID)
		if err != nil {
			return err
		}
		again = there
		sent, known, err := lookup(c, key)
		switch {
		case err != nil:
			return err
		case known && sent.Digest != digest:
			return fmt.Errorf("ledger: say %v: %w; choose another id", key, ErrConflict)
		case known && !there:
			return fmt.Errorf("ledger: say %v: %w; look for it in the inbox", key, ErrWritten)
		}
		if _, err := claim(c, &d); err != nil {
			return err
		}
		if !known {
			if _, err := c.Exec(`INSERT INTO sends (root, team, created_at, inbox, id, digest, before, state, at)
				VALUES (?, ?, ?, ?, ?, ?, '', 'written', ?)`, append(keyArgs(key), digest[:], time.Now().UnixMicro())...); err != nil {
				return err
			}
		}
		said, _, err = delivery(c, d.UUID)
		return err
	})
	return said, again, err
}

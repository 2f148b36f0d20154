package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"teambridge/inbox/sqlite"
)

// Prompt is a user prompt to record. Digest distinguishes messages with the same ID.
type Prompt struct {
	Delivery
	Digest [32]byte
}

// AddedPrompt is a recorded prompt. Again is true if it was recorded before.
type AddedPrompt struct {
	Delivery
	Again bool
}

// AddPrompts claims user prompts as [Deliveries.Claim] does, in the given order, all or none. The same commit records
// that their IDs were sent, so that neither a prompt nor a row with such an ID is sent a second time.
//
// A prompt that is recorded already is returned in its present state, without its text. AddPrompts fails with
// [ErrConflict] if an ID belongs to another message, with [ErrWritten] if its message was, or was about to be, put
// into the inbox as a row (only the file shows which), and with *[ValueError].
func (l Deliveries) AddPrompts(ctx context.Context, prompts ...Prompt) ([]AddedPrompt, error) {
	for i := range prompts {
		if !prompts[i].Person {
			return nil, invalid("delivery", "is no person's input")
		}
		if err := cmp.Or(checkKey(prompts[i].key()), prompts[i].check()); err != nil {
			return nil, err
		}
	}
	added := make([]AddedPrompt, len(prompts))
	err := l.write(ctx, "say", durable, func(c *sqlite.Conn) (err error) {
		for i := range prompts {
			if added[i], err = addPrompt(c, &prompts[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

// key is the key of the message.
func (p *Prompt) key() SendKey {
	return SendKey{InboxKey: p.InboxKey, ID: p.ID}
}

func addPrompt(c *sqlite.Conn, p *Prompt) (added AddedPrompt, err error) {
	key := p.key()
	d, there, err := delivery(c, p.UUID)
	if !there && err == nil && p.Team == SessionTeam { // a renamed session: the UUID is derived from its name
		d, there, err = sqlite.One(c, scanDelivery, "SELECT "+deliveryColumns+" FROM deliveries JOIN inboxes USING (inbox_id) WHERE "+thisInbox+" AND id=?", keyArgs(key)...)
	}
	if err != nil {
		return added, err
	}
	if added.Again = there; there {
		p.UUID = d.UUID
	}
	sent, known, err := lookup(c, key)
	switch {
	case err != nil:
		return added, err
	case known && sent.Digest != p.Digest:
		return added, fmt.Errorf("ledger: %v: %w", key, ErrConflict)
	case known && !there:
		return added, fmt.Errorf("ledger: say %v: %w; look for it in the inbox", key, ErrWritten)
	}
	if _, err := claim(c, &p.Delivery); err != nil {
		return added, err
	}
	if !known {
		if _, err := c.Exec(`INSERT INTO sends (root, team, created_at, inbox, id, digest, before, state, at)
			VALUES (?, ?, ?, ?, ?, ?, '', 'written', ?)`, append(keyArgs(key), p.Digest[:], time.Now().UnixMicro())...); err != nil {
			return added, err
		}
	}
	added.Delivery, _, err = delivery(c, p.UUID)
	return added, err
}

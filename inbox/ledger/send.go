package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Sends are the sent messages, by their ids. The tables are sends, messages and pending. Table messages also has the
// texts of answers, and of messages to the person.
type Sends struct{ *file }

// The ledger is the [inbox.Memory], so a record of a sent message has the types of package inbox. Every part of a key
// but CreatedAt must not be blank, and have at most 4 KiB; Before has at most 64 KiB. At is kept to the microsecond
// and returned in UTC.
type (
	SendKey = inbox.SendKey
	Send    = inbox.Send
	State   = inbox.SendState
)

// The states of a message.
const (
	Intent  = inbox.SendIntent
	Written = inbox.SendWritten
)

var _ inbox.Memory = Sends{}

const maxBefore = 64 << 10

func checkKey(k SendKey) error {
	return cmp.Or(checkInbox(k.InboxKey), names("id", k.ID))
}

func keyArgs(k SendKey, before ...sqlite.Value) []sqlite.Value {
	return append(inboxArgs(k.InboxKey, before...), k.ID)
}

// thisSend is the condition that a row of the table sends has a key.
const thisSend = thisInbox + " AND id=?"

// Recall returns the record of a message, and whether there is one.
func (l Sends) Recall(ctx context.Context, key SendKey) (send Send, found bool, err error) {
	if err := checkKey(key); err != nil {
		return Send{}, false, err
	}
	err = l.db.Do(ctx, "recall", func(c *sqlite.Conn) (err error) {
		send, found, err = lookup(c, key)
		return err
	})
	return send, found, err
}

func lookup(c *sqlite.Conn, key SendKey) (Send, bool, error) {
	send, found := Send{SendKey: key}, false
	var invalid error
	err := c.Query(func(v sqlite.Row) {
		digest := v.Blob(0)
		if len(digest) != len(send.Digest) {
			invalid = fmt.Errorf("ledger: %v: its record is damaged: it has a digest of %d bytes, not %d", key, len(digest), len(send.Digest))
			return
		}
		copy(send.Digest[:], digest)
		send.Before, send.State, send.At, found = v.Text(1), State(v.Text(2)), v.Time(3), true
	}, "SELECT digest, before, state, at FROM sends WHERE "+thisSend, keyArgs(key)...)
	return send, found, cmp.Or(err, invalid)
}

// Prompt returns the delivery of the user prompt, or of the message to the inbox's pane, with that message id, and
// whether there is one. Raw and Mode are left out.
func (l Sends) Prompt(ctx context.Context, key SendKey) (d Delivery, found bool, err error) {
	if err := checkKey(key); err != nil {
		return d, false, err
	}
	return first(sqlite.Select(ctx, l.db, "prompt", scanDelivery, "SELECT "+deliveryColumns+
		" FROM inboxes JOIN deliveries USING (inbox_id) WHERE "+thisInbox+" AND id=? AND person=1 ORDER BY seq DESC LIMIT 1", keyArgs(key)...))
}

// Intend records durably that s is about to be written, with its row for [Events.After].
// It replaces an earlier intent of the same key and digest; without a row, s restores that
// intent. It ignores s.State. It fails with [ErrConflict] if the key has another digest,
// with [ErrWritten] if the message was written before, and with *[ValueError].
func (l Sends) Intend(ctx context.Context, s Send) error {
	if err := cmp.Or(checkKey(s.SendKey), content("row", s.Row)); err != nil {
		return err
	}
	if len(s.Before) > maxBefore {
		return invalid("before", fmt.Sprintf("has %d bytes, over %d", len(s.Before), maxBefore))
	}
	return l.write(ctx, "intend", durable, func(c *sqlite.Conn) error { return intend(c, s) })
}

func intend(c *sqlite.Conn, s Send) error {
	message, err := addSent(c, s)
	if err != nil {
		return err
	}
	args := append(keyArgs(s.SendKey), s.Digest[:], s.Before, string(Intent), s.At.UnixMicro(), message)
	n, err := c.Exec(`INSERT INTO sends (root, team, created_at, inbox, id, digest, before, state, at, message)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, args...)
	if err != nil || n > 0 {
		return err
	}
	was, _, err := lookup(c, s.SendKey)
	switch {
	case err != nil:
		return err
	case was.Digest != s.Digest:
		return fmt.Errorf("ledger: %v: %w", s.SendKey, ErrConflict)
	case was.State != Intent:
		return fmt.Errorf("ledger: intend %v: %w; there is nothing to do", s.SendKey, ErrWritten)
	}
	if len(s.Row) == 0 || was.Before == s.Before {
		// The row of the earlier intent is not in the file.
		if err := dropSent(c, s.SendKey); err != nil {
			return err
		}
	}
	_, err = c.Exec("UPDATE sends SET before=?, at=?, message=? WHERE "+thisSend, keyArgs(s.SendKey, s.Before, s.At.UnixMicro(), message)...)
	return err
}

// Written records that the message intended under key was read back from the inbox file at
// the given time. A second call has no effect. It fails with [ErrNoIntent]. It does not wait
// for the disk: a power cut can turn the record back into an intent.
func (l Sends) Written(ctx context.Context, key SendKey, at time.Time) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return l.write(ctx, "written", quick, func(c *sqlite.Conn) error {
		n, err := c.Exec("UPDATE sends SET state='written', at=? WHERE state='intent' AND "+thisSend, keyArgs(key, at.UnixMicro())...)
		if err != nil {
			return err
		}
		if n > 0 {
			return sentWritten(c, key, at)
		}
		_, found, err := lookup(c, key)
		if err == nil && !found {
			err = fmt.Errorf("ledger: written %v: %w; intend it first", key, ErrNoIntent)
		}
		return err
	})
}

// Withdraw removes an intent, durably: the message was certainly not written. It does
// nothing if there is none or if the message was written.
func (l Sends) Withdraw(ctx context.Context, key SendKey) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return l.write(ctx, "withdraw", durable, func(c *sqlite.Conn) error {
		if err := dropSent(c, key); err != nil {
			return err
		}
		_, err := c.Exec("DELETE FROM sends WHERE state='intent' AND "+thisSend, keyArgs(key)...)
		return err
	})
}

// gone is the Before of a written message whose row vanished for no known reason. No file
// has this state, so sending the message again reports that its fate is unknown.
const gone = "row gone"

// MarkUnknown takes back that a message was written, because its row vanished and nothing shows that its agent took
// it. The message can then be sent again by force ([inbox.ErrUnknown]).
func (l Sends) MarkUnknown(ctx context.Context, key SendKey) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return l.exec(ctx, "mark unknown", quick, "UPDATE sends SET state='intent', before=? WHERE state='written' AND "+thisSend, keyArgs(key, gone)...)
}

// Doubted reports whether the last record of a message is that of [Sends.MarkUnknown].
func (l Sends) Doubted(ctx context.Context, key SendKey) (bool, error) {
	s, found, err := l.Recall(ctx, key)
	return found && Vanished(s), err
}

// Vanished reports whether a record is that of [Sends.MarkUnknown].
func Vanished(s Send) bool { return s.State == Intent && s.Before == gone }

// Last returns the time of the last send, written or intended, to each inbox of a team instance, by name. It omits
// inboxes without records, as after [Ledger.Prune].
func (l Sends) Last(ctx context.Context, root, team string, createdAt int64) (map[string]time.Time, error) {
	if err := names("root", root, "team", team); err != nil {
		return nil, err
	}
	last := map[string]time.Time{}
	err := l.db.Do(ctx, "last sends", func(c *sqlite.Conn) error {
		return c.Query(func(v sqlite.Row) { last[v.Text(0)] = v.Time(1) },
			"SELECT inbox, max(at) FROM sends WHERE root=? AND team=? AND created_at=? GROUP BY inbox", root, team, createdAt)
	})
	return last, err
}

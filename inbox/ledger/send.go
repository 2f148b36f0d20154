package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// What is remembered of a message is said in the terms of package inbox, for
// which the ledger is the [inbox.Memory]. Every part of a key but CreatedAt must
// hold something and at most 4 KiB, Before at most 64 KiB; At is kept to the
// microsecond and given in UTC.
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

var _ inbox.Memory = (*Ledger)(nil)

// A ValueError is a part of a record that cannot be kept. Nothing was done.
type ValueError struct {
	Field  string
	Reason string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("ledger: %s %s; correct it and try again", e.Field, e.Reason)
}

const (
	maxName   = 4 << 10
	maxBefore = 64 << 10
)

type field struct{ name, value string }

func names(fields ...field) error {
	for _, f := range fields {
		switch {
		case strings.TrimSpace(f.value) == "":
			return &ValueError{Field: f.name, Reason: "is blank"}
		case len(f.value) > maxName:
			return &ValueError{Field: f.name, Reason: fmt.Sprintf("has %d bytes, over %d", len(f.value), maxName)}
		}
	}
	return nil
}

func checkKey(k SendKey) error {
	return names(field{"root", k.Root}, field{"team", k.Team}, field{"inbox", k.Inbox}, field{"id", k.ID})
}

func keyArgs(k SendKey, before ...sqlite.Value) []sqlite.Value {
	return append(before, k.Root, k.Team, k.CreatedAt, k.Inbox, k.ID)
}

// Recall tells what is known of a message, and whether anything is.
func (l *Ledger) Recall(ctx context.Context, key SendKey) (send Send, found bool, err error) {
	if err := checkKey(key); err != nil {
		return Send{}, false, err
	}
	err = l.db.Do(ctx, "recall", func(c *sqlite.Conn) (err error) {
		send, found, err = lookup(c, key)
		return err
	})
	if err != nil {
		return Send{}, false, err
	}
	return send, found, nil
}

func lookup(c *sqlite.Conn, key SendKey) (Send, bool, error) {
	send, found := Send{SendKey: key}, false
	err := c.Query(func(v []sqlite.Value) error {
		digest, _ := v[0].([]byte)
		before, _ := v[1].(string)
		state, _ := v[2].(string)
		at, _ := v[3].(int64)
		if len(digest) != len(send.Digest) {
			return fmt.Errorf("ledger: %v: its record has a digest of %d bytes, not %d; move the ledger away", key, len(digest), len(send.Digest))
		}
		copy(send.Digest[:], digest)
		send.Before, send.State, send.At = before, State(state), time.UnixMicro(at).UTC()
		found = true
		return nil
	}, `SELECT digest, before, state, at FROM sends
		WHERE root=? AND team=? AND created_at=? AND inbox=? AND id=?`, keyArgs(key)...)
	return send, found, err
}

// Intend records that s is about to be written, with its row for [Ledger.Events].
// When it returns nil the record is on the disk. An earlier intent of the same key
// and digest is replaced; without a row, what s restores is that intent.
//
// It fails with [ErrConflict] when the key has another digest, with
// [ErrWritten] when the message was written before, and with *[ValueError];
// the record then stays what it was. s.State is not looked at.
func (l *Ledger) Intend(ctx context.Context, s Send) error {
	if err := checkKey(s.SendKey); err != nil {
		return err
	}
	if len(s.Before) > maxBefore {
		return &ValueError{Field: "before", Reason: fmt.Sprintf("has %d bytes, over %d", len(s.Before), maxBefore)}
	}
	if len(s.Row) > maxContent {
		return &ValueError{Field: "row", Reason: fmt.Sprintf("has %d bytes, over %d", len(s.Row), maxContent)}
	}
	return l.db.Do(ctx, "intend", func(c *sqlite.Conn) error {
		if err := durable(c); err != nil {
			return err
		}
		return c.Transaction("IMMEDIATE", func() error { return intend(c, s) })
	})
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
		return fmt.Errorf("ledger: intend %v: %w; choose another id", s.SendKey, ErrConflict)
	case was.State != Intent:
		return fmt.Errorf("ledger: intend %v: %w; there is nothing to do", s.SendKey, ErrWritten)
	}
	if len(s.Row) == 0 || was.Before == s.Before {
		// The row of the intent that stood there is not in the file.
		if err := dropSent(c, s.SendKey); err != nil {
			return err
		}
	}
	_, err = c.Exec(`UPDATE sends SET before=?, at=?, message=?
		WHERE root=? AND team=? AND created_at=? AND inbox=? AND id=?`, keyArgs(s.SendKey, s.Before, s.At.UnixMicro(), message)...)
	return err
}

// Written records that the message intended under key was read back from the
// inbox file at the given time. Said twice it changes nothing. It fails with
// [ErrNoIntent] if nothing was intended.
//
// It does not wait for the disk: a power cut can turn the record back into an
// intent.
func (l *Ledger) Written(ctx context.Context, key SendKey, at time.Time) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return l.db.Do(ctx, "written", func(c *sqlite.Conn) error {
		if err := quick(c); err != nil {
			return err
		}
		return c.Transaction("IMMEDIATE", func() error {
			n, err := c.Exec(`UPDATE sends SET state='written', at=?
				WHERE root=? AND team=? AND created_at=? AND inbox=? AND id=? AND state='intent'`,
				keyArgs(key, at.UnixMicro())...)
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
	})
}

// Withdraw forgets an intent, durably: the message was certainly not written.
// It is no error if there is none, and what is known to be written stays known.
func (l *Ledger) Withdraw(ctx context.Context, key SendKey) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return l.db.Do(ctx, "withdraw", func(c *sqlite.Conn) error {
		if err := durable(c); err != nil {
			return err
		}
		return c.Transaction("IMMEDIATE", func() error {
			if err := dropSent(c, key); err != nil {
				return err
			}
			_, err := c.Exec(`DELETE FROM sends
				WHERE root=? AND team=? AND created_at=? AND inbox=? AND id=? AND state='intent'`, keyArgs(key)...)
			return err
		})
	})
}

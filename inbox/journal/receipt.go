package journal

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// A State is how far a message of ours is known to have come.
type State string

const (
	// Verified: it was read back from the inbox file.
	Verified State = "verified"
	// Consumed: the agent took it. Nothing comes after it.
	Consumed State = "consumed"
	// Lost: it vanished without having been taken. Verified comes after it when the
	// message is sent again, and Consumed when that turns out to be wrong.
	Lost State = "lost"
	// Unknown: it vanished, and nothing tells whether it was taken. The same comes
	// after it.
	Unknown State = "unknown"
)

// A Receipt says what became of one message of ours.
type Receipt struct {
	inbox.SendKey
	Seq    int64 // of its last change
	State  State
	Reason string // why it is lost or unknown

	// When it came to be so for the first time, in UTC, to the microsecond; zero
	// if it did not, or if it was not recorded. LostAt is also when it came to be
	// unknown; VerifiedAt is that of the last sending.
	VerifiedAt, ConsumedAt, LostAt time.Time
}

// Verified records that a message was read back from its inbox.
//
// Of a message that is not known, any of Verified, Consumed, Lost and Unknown makes
// a receipt. Said again they change nothing. They return the receipt as it is then,
// and fail with *[Error] or *[ValueError].
//
// A message that was lost or unknown is verified again when it was sent again.
//
// ahead are the keys of unread rows that stand in front of the message, by which a
// later process can prove that it was lost: see [Journal.Ahead].
func (j *Journal) Verified(ctx context.Context, key inbox.SendKey, at time.Time, ahead ...string) (Receipt, error) {
	return j.settle(ctx, "verified", key, at, ahead, toVerified(at))
}

// Consumed records that the agent took a message.
func (j *Journal) Consumed(ctx context.Context, key inbox.SendKey, at time.Time) (Receipt, error) {
	return j.settle(ctx, "consumed", key, at, nil, toConsumed(at))
}

// Lost records that a message is lost, and why. A message that was consumed is
// not.
func (j *Journal) Lost(ctx context.Context, key inbox.SendKey, at time.Time, reason string) (Receipt, error) {
	if len(reason) > maxName {
		return Receipt{}, &ValueError{"reason", "is longer than 4 KiB"}
	}
	return j.settle(ctx, "lost", key, at, nil, toLost(Lost, at, reason))
}

// Unknown records that a message is gone and that nothing tells whether it was
// taken, and why not. A message that was consumed or lost stays that.
func (j *Journal) Unknown(ctx context.Context, key inbox.SendKey, at time.Time, reason string) (Receipt, error) {
	if len(reason) > maxName {
		return Receipt{}, &ValueError{"reason", "is longer than 4 KiB"}
	}
	return j.settle(ctx, "unknown", key, at, nil, toLost(Unknown, at, reason))
}

func toVerified(at time.Time) func(*Receipt) bool {
	return func(r *Receipt) bool {
		again := r.State == Lost || r.State == Unknown
		if again && !at.After(r.LostAt) || !again && !r.VerifiedAt.IsZero() {
			return false
		}
		r.VerifiedAt = at
		if again {
			r.State, r.Reason, r.LostAt = Verified, "", time.Time{}
		}
		return true
	}
}

func toConsumed(at time.Time) func(*Receipt) bool {
	return func(r *Receipt) bool {
		if r.State == Consumed {
			return false
		}
		r.State, r.ConsumedAt = Consumed, at
		return true
	}
}

// toLost is for Lost and Unknown.
func toLost(state State, at time.Time, reason string) func(*Receipt) bool {
	return func(r *Receipt) bool {
		if r.State != Verified {
			return false
		}
		r.State, r.LostAt, r.Reason = state, at, reason
		return true
	}
}

// settle changes one receipt, unless change says that there is nothing to change.
func (j *Journal) settle(ctx context.Context, op string, key inbox.SendKey, at time.Time, ahead []string, change func(*Receipt) bool) (Receipt, error) {
	if err := names(field{"root", key.Root}, field{"team", key.Team}, field{"inbox", key.Inbox}, field{"id", key.ID}); err != nil {
		return Receipt{}, err
	}
	if at.IsZero() {
		return Receipt{}, &ValueError{"time", "is missing"}
	}
	var r Receipt
	err := j.db.Do(ctx, op, func(c *sqlite.Conn) error {
		return j.number(c, func(n *numbers) (err error) {
			r, err = settle(c, n, key, at, ahead, change)
			return err
		})
	})
	if err != nil {
		return Receipt{}, err
	}
	return r, nil
}

// settle is the part of it that is in a transaction.
func settle(c *sqlite.Conn, n *numbers, key inbox.SendKey, at time.Time, ahead []string, change func(*Receipt) bool) (Receipt, error) {
	was, found, err := lookup(c, key)
	if err != nil {
		return Receipt{}, err
	}
	r := was
	if !found {
		r = Receipt{SendKey: key, State: Verified}
	}
	if !change(&r) {
		if r.State == Verified && len(ahead) > 0 {
			// It was copied from the ledger, which does not know them.
			_, err := c.Exec("UPDATE receipts SET ahead=? WHERE seq=? AND ahead IS NULL", strings.Join(ahead, " "), r.Seq)
			return r, err
		}
		return r, nil
	}
	r.Seq = n.next()
	s, err := c.Statement("DELETE FROM receipts WHERE seq=?")
	if err != nil {
		return Receipt{}, err
	}
	if _, err := s.Exec(was.Seq); err != nil {
		return Receipt{}, err
	}
	var front sqlite.Value // of what is not followed any more it is of no use
	if r.State == Verified && len(ahead) > 0 {
		front = strings.Join(ahead, " ")
	}
	s, err = c.Statement(`INSERT INTO receipts (seq, root, team, created_at, inbox, id, state, at,
		verified_at, consumed_at, lost_at, reason, ahead) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return Receipt{}, err
	}
	if _, err := s.Exec(r.Seq, key.Root, key.Team, key.CreatedAt, key.Inbox, key.ID, string(r.State), at.UnixMicro(),
		micros(r.VerifiedAt), micros(r.ConsumedAt), micros(r.LostAt), r.Reason, front); err != nil {
		return Receipt{}, err
	}
	r, _, err = lookup(c, key)
	return r, err
}

// Ahead returns the keys ([inbox.Row.Key]) of the rows that stood unread in front of
// a message of ours when it was written, and that have stood there ever since, as far
// as anybody has seen: none where that is not known for sure. If the message is gone
// from its inbox and one of them is there, it was lost: see [inbox.Tracked.Look].
func (j *Journal) Ahead(ctx context.Context, key inbox.SendKey) (keys []string, err error) {
	err = j.db.Do(ctx, "ahead", func(c *sqlite.Conn) error {
		keys = nil // f runs again when the file was busy
		return c.Transaction("DEFERRED", func() error {
			known := map[string]bool{}
			err := c.Query(func(v []sqlite.Value) error {
				text, _ := v[0].(string)
				for _, k := range strings.Fields(text) {
					known[k] = true
				}
				return nil
			}, "SELECT ahead FROM receipts WHERE root=? AND team=? AND created_at=? AND inbox=? AND id=? AND state='verified'",
				key.Root, key.Team, key.CreatedAt, key.Inbox, key.ID)
			if err != nil || len(known) == 0 {
				return err
			}
			box, err := c.Number("SELECT id FROM inboxes WHERE root=? AND team=? AND created_at=? AND inbox=?",
				key.Root, key.Team, key.CreatedAt, key.Inbox)
			if err != nil {
				return err
			}
			// What came after the message, or was gone and came again, is another one in
			// the journal: another program wrote it back, and it may have been taken before.
			ours, err := c.Number("SELECT max(seq) FROM messages WHERE inbox=? AND id=?", box, key.ID)
			if err != nil {
				return err
			}
			return c.Query(func(v []sqlite.Value) error {
				var m Message
				raw, _ := v[0].([]byte)
				m.set(raw)
				if k := m.Row.Key(); known[k] {
					keys = append(keys, k)
				}
				return nil
			}, `SELECT raw FROM messages INDEXED BY messages_present
				WHERE inbox=? AND gone_at IS NULL AND read_at IS NULL AND seq<? ORDER BY seq`, box, ours)
		})
	})
	return keys, err
}

const receiptColumns = `seq, root, team, created_at, inbox, id, state, reason,
	verified_at, consumed_at, lost_at FROM receipts`

func scanReceipt(v []sqlite.Value) (r Receipt) {
	r.Seq, _ = v[0].(int64)
	r.Root, _ = v[1].(string)
	r.Team, _ = v[2].(string)
	r.CreatedAt, _ = v[3].(int64)
	r.Inbox, _ = v[4].(string)
	r.ID, _ = v[5].(string)
	state, _ := v[6].(string)
	r.State = State(state)
	r.Reason, _ = v[7].(string)
	r.VerifiedAt, r.ConsumedAt, r.LostAt = moment(v[8]), moment(v[9]), moment(v[10])
	return r
}

func lookup(c *sqlite.Conn, key inbox.SendKey) (r Receipt, found bool, err error) {
	err = c.Query(func(v []sqlite.Value) error {
		r, found = scanReceipt(v), true
		return nil
	}, "SELECT "+receiptColumns+" WHERE root=? AND team=? AND created_at=? AND inbox=? AND id=?",
		key.Root, key.Team, key.CreatedAt, key.Inbox, key.ID)
	return r, found, err
}

// Receipt tells what is known of one message of ours, and whether anything is.
func (j *Journal) Receipt(ctx context.Context, key inbox.SendKey) (r Receipt, found bool, err error) {
	err = j.db.Do(ctx, "receipt", func(c *sqlite.Conn) (err error) {
		r, found, err = lookup(c, key)
		return err
	})
	return r, found, err
}

// Receipts yields the receipts that q asks for, in the order of their last
// changes. Since and Until are about the last change, ID is the key's. A
// receipt does not know a sender: with From it fails with *[ValueError].
func (j *Journal) Receipts(ctx context.Context, q Query) iter.Seq2[Receipt, error] {
	return pages(q, func(r *Receipt) int64 { return r.Seq }, func(q Query, limit int) (list []Receipt, err error) {
		if q.From != "" {
			return nil, &ValueError{"sender", "is not known of receipts"}
		}
		where, args := q.inboxes()
		if where == "" {
			where = "TRUE"
		}
		and := func(term string, value sqlite.Value) {
			where += " AND " + term
			args = append(args, value)
		}
		if q.ID != "" {
			and("id=?", q.ID)
		}
		if q.After != 0 {
			and("seq>?", q.After)
		}
		if q.Before != 0 {
			and("seq<?", q.Before)
		}
		if !q.Since.IsZero() {
			and("at>=?", q.Since.UnixMicro())
		}
		if !q.Until.IsZero() {
			and("at<?", q.Until.UnixMicro())
		}
		err = j.db.Do(ctx, "receipts", func(c *sqlite.Conn) error {
			list = list[:0]
			return c.Query(func(v []sqlite.Value) error {
				list = append(list, scanReceipt(v))
				return nil
			}, "SELECT "+receiptColumns+" WHERE "+where+" ORDER BY seq "+q.order()+" LIMIT ?", append(slices.Clip(args), int64(limit))...)
		})
		return list, err
	})
}

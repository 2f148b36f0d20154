package journal

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Receipts are the known states of sent messages. The table is receipts.
type Receipts struct{ *database }

// shown is no state of a receipt: a message may be marked as taken after the model was given it.
const shown inbox.Fate = "seen"

// A Receipt is the known fate of a sent message. Consumed is final. Lost and Unknown become Unconsumed if the message is
// sent again, and Consumed if it turns out that the agent took it.
type Receipt struct {
	inbox.SendKey
	Seq    int64 // of its last change
	State  inbox.Fate
	Reason string // why it is lost or unknown

	// When the message first reached each state, in UTC, to the microsecond; zero if that is not recorded. LostAt is
	// when it was found lost or unknown; VerifiedAt is that of the last sending.
	VerifiedAt, ConsumedAt, LostAt time.Time

	// SeenAt is when the agent's model was given the message; zero if unknown. An agent can show a message to its
	// model before it marks it as taken, so the State may be Unconsumed.
	SeenAt time.Time
}

// Verified records that a message was read back from its inbox. The message may be a lost or unknown one that was
// sent again. ahead are the keys of the unread rows in front of it, which can prove a loss: see [Receipts.Ahead].
//
// Verified, Consumed, Lost and Unknown create the receipt if there is none, and return it.
// A second call has no effect. They fail with *[Error] or *[ValueError].
func (j Receipts) Verified(ctx context.Context, key inbox.SendKey, at time.Time, ahead ...string) (Receipt, error) {
	return j.update(ctx, key, inbox.Unconsumed, at, "", ahead)
}

// Consumed records that the agent took a message.
func (j Receipts) Consumed(ctx context.Context, key inbox.SendKey, at time.Time) (Receipt, error) {
	return j.update(ctx, key, inbox.Consumed, at, "", nil)
}

// Lost records that a message is lost, and why. It does not change a receipt that is consumed, unknown or seen.
func (j Receipts) Lost(ctx context.Context, key inbox.SendKey, at time.Time, reason string) (Receipt, error) {
	return j.update(ctx, key, inbox.Lost, at, reason, nil)
}

// Unknown records that a message is gone, that nothing shows whether it was taken, and why. It does not change a
// receipt that is consumed, seen or lost.
func (j Receipts) Unknown(ctx context.Context, key inbox.SendKey, at time.Time, reason string) (Receipt, error) {
	return j.update(ctx, key, inbox.Unknown, at, reason, nil)
}

// Seen records that the agent's model was given a message, so the message is not lost. Without a receipt, it returns
// the zero Receipt.
func (j Receipts) Seen(ctx context.Context, key inbox.SendKey, at time.Time) (Receipt, error) {
	return j.update(ctx, key, shown, at, "", nil)
}

// become brings a receipt to a state, and reports whether the receipt changed.
func (r *Receipt) become(state inbox.Fate, at time.Time, reason string) bool {
	gone := r.State == inbox.Lost || r.State == inbox.Unknown
	switch {
	case state == shown && r.SeenAt.IsZero():
		r.SeenAt = at
		if gone {
			r.State, r.ConsumedAt = inbox.Consumed, at
		}
	case state == inbox.Consumed && r.State != inbox.Consumed:
		r.State, r.ConsumedAt = inbox.Consumed, at
	case state == inbox.Unconsumed && gone && at.After(r.LostAt):
		r.State, r.VerifiedAt, r.Reason, r.LostAt = inbox.Unconsumed, at, "", time.Time{}
	case state == inbox.Unconsumed && !gone && r.VerifiedAt.IsZero():
		r.VerifiedAt = at
	case (state == inbox.Lost || state == inbox.Unknown) && r.State == inbox.Unconsumed && r.SeenAt.IsZero() && !at.Before(r.VerifiedAt): // earlier: copied again
		r.State, r.LostAt, r.Reason = state, at, reason
	default:
		return false
	}
	return true
}

func (j Receipts) update(ctx context.Context, key inbox.SendKey, state inbox.Fate, at time.Time, reason string, ahead []string) (r Receipt, err error) {
	if len(reason) > sqlite.MaxName {
		return Receipt{}, invalid("reason", "is longer than 4 KiB")
	}
	if err := names("root", key.Root, "team", key.Team, "inbox", key.Inbox, "id", key.ID); err != nil {
		return Receipt{}, err
	}
	if at.IsZero() {
		return Receipt{}, invalid("time", "is missing")
	}
	err = j.db.Do(ctx, string(state), func(c *sqlite.Conn) error {
		return j.number(c, func(n *numbers) (err error) {
			r, err = advanceReceipt(c, n, key, state, at, reason, ahead)
			return err
		})
	})
	return r, err
}

// advanceReceipt is update within a transaction. The state is newer than the recorded one, even if the clock was set
// back since.
func advanceReceipt(c *sqlite.Conn, n *numbers, key inbox.SendKey, state inbox.Fate, at time.Time, reason string, ahead []string) (Receipt, error) {
	was, _, err := lookup(c, key)
	if err != nil {
		return Receipt{}, err
	}
	if state != shown { // it has the time of a transcript
		at = slices.MaxFunc([]time.Time{at, was.VerifiedAt, was.LostAt.Add(time.Microsecond)}, time.Time.Compare)
	}
	return updateReceipt(c, n, key, state, at, reason, ahead)
}

// updateReceipt is advanceReceipt with a state that may have been recorded before.
func updateReceipt(c *sqlite.Conn, n *numbers, key inbox.SendKey, state inbox.Fate, at time.Time, reason string, ahead []string) (Receipt, error) {
	was, found, err := lookup(c, key)
	if err != nil {
		return Receipt{}, err
	}
	r := was
	if !found && state == shown {
		return Receipt{}, nil
	}
	if !found {
		r = Receipt{SendKey: key, State: inbox.Unconsumed}
	}
	if !r.become(state, at, reason) {
		if r.State == inbox.Unconsumed && len(ahead) > 0 {
			// The receipt was copied from the ledger, which does not have these keys.
			_, err := c.Exec("UPDATE receipts SET ahead=? WHERE seq=? AND ahead IS NULL", strings.Join(ahead, " "), r.Seq)
			return r, err
		}
		return r, nil
	}
	r.Seq = n.next()
	if state == shown {
		_, err := c.Exec("UPDATE receipts SET seq=?, state=?, at=max(at, ?), consumed_at=?, seen_at=? WHERE seq=?",
			r.Seq, string(r.State), at.UnixMicro(), micros(r.ConsumedAt), micros(at), was.Seq)
		if err == nil {
			r, _, err = lookup(c, key)
		}
		return r, err
	}
	if _, err := c.Exec("DELETE FROM receipts WHERE seq=?", was.Seq); err != nil {
		return Receipt{}, err
	}
	var front sqlite.Value // NULL for other states, which no longer need these keys
	if r.State == inbox.Unconsumed && len(ahead) > 0 {
		front = strings.Join(ahead, " ")
	}
	if _, err := c.Exec(`INSERT INTO receipts (seq, root, team, created_at, inbox, id, state, at,
		verified_at, consumed_at, lost_at, seen_at, reason, ahead) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Seq, key.Root, key.Team, key.CreatedAt, key.Inbox, key.ID, string(r.State), at.UnixMicro(),
		micros(r.VerifiedAt), micros(r.ConsumedAt), micros(r.LostAt), micros(r.SeenAt), r.Reason, front); err != nil {
		return Receipt{}, err
	}
	r, _, err = lookup(c, key)
	return r, err
}

// Ahead returns the keys ([inbox.Row.Key]) of the rows that were unread in front of a sent message when it was
// written, and have certainly stayed there. If the message is gone and one of these rows is there, the message was
// lost: see [inbox.Tracked.Look].
func (j Receipts) Ahead(ctx context.Context, key inbox.SendKey) (keys []string, err error) {
	err = j.db.Transaction(ctx, "ahead", "DEFERRED", func(c *sqlite.Conn) error {
		keys = nil // this function runs again if the file was busy
		var known []string
		err := c.Query(func(v sqlite.Row) { known = strings.Fields(v.Text(0)) },
			"SELECT ahead FROM receipts WHERE state='verified' AND "+thisInbox+" AND id=?", key.Root, key.Team, key.CreatedAt, key.Inbox, key.ID)
		if err != nil || len(known) == 0 {
			return err
		}
		box, err := c.Number("SELECT id FROM inboxes WHERE "+thisInbox, key.Root, key.Team, key.CreatedAt, key.Inbox)
		if err != nil {
			return err
		}
		// A row with a higher number came later, or came again and may have been taken before.
		ours, err := c.Number("SELECT max(seq) FROM messages WHERE inbox=? AND id=?", box, key.ID)
		if err != nil {
			return err
		}
		return c.Query(func(v sqlite.Row) {
			var m Record
			m.set(v.Blob(0))
			if k := m.Row.Key(); slices.Contains(known, k) {
				keys = append(keys, k)
			}
		}, `SELECT raw FROM messages INDEXED BY messages_present
			WHERE inbox=? AND gone_at IS NULL AND read_at IS NULL AND seq<? ORDER BY seq`, box, ours)
	})
	return keys, err
}

const receiptColumns = `seq, root, team, created_at, inbox, id, state, reason,
	verified_at, consumed_at, lost_at, seen_at FROM receipts`

func scanReceipt(v sqlite.Row) Receipt {
	return Receipt{
		Seq: v.Int(0), SendKey: inbox.SendKey{InboxKey: scanKey(v, 1), ID: v.Text(5)}, State: inbox.Fate(v.Text(6)), Reason: v.Text(7),
		VerifiedAt: v.Time(8), ConsumedAt: v.Time(9), LostAt: v.Time(10), SeenAt: v.Time(11),
	}
}

func lookup(c *sqlite.Conn, key inbox.SendKey) (Receipt, bool, error) {
	return sqlite.One(c, scanReceipt, "SELECT "+receiptColumns+" WHERE "+thisInbox+" AND id=?", key.Root, key.Team, key.CreatedAt, key.Inbox, key.ID)
}

// Receipt returns the receipt of a sent message, and whether there is one.
func (j Receipts) Receipt(ctx context.Context, key inbox.SendKey) (r Receipt, found bool, err error) {
	err = j.db.Do(ctx, "receipt", func(c *sqlite.Conn) (err error) {
		r, found, err = lookup(c, key)
		return err
	})
	return r, found, err
}

// Of returns the receipts of messages to one inbox, by their ids. If k has no CreatedAt, and several teams have had its
// name, that of the latest change counts.
func (j Receipts) Of(ctx context.Context, k inbox.InboxKey, ids ...string) (map[string]Receipt, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	where := (&Query{Root: k.Root, Team: k.Team, CreatedAt: k.CreatedAt, Inbox: k.Inbox}).inboxes()
	where.add(true, "id IN (SELECT value FROM json_each(?))", string(list))
	found, err := sqlite.Select(ctx, j.db, "receipts", scanReceipt, "SELECT "+receiptColumns+" WHERE "+where.String()+" ORDER BY seq", where.args...)
	receipts := make(map[string]Receipt, len(found))
	for _, r := range found {
		receipts[r.ID] = r
	}
	return receipts, err
}

// All yields the receipts that q selects, in the order of their last changes. Since and Until refer to these changes.
// With From it fails with *[ValueError], since a receipt has no sender.
func (j Receipts) All(ctx context.Context, q Query) iter.Seq2[Receipt, error] {
	return j.list(ctx, q, false)
}

// AllLost yields the receipts of [Receipts.All] that are lost or unknown, without reading the others.
func (j Receipts) AllLost(ctx context.Context, q Query) iter.Seq2[Receipt, error] {
	return j.list(ctx, q, true)
}

func (j Receipts) list(ctx context.Context, q Query, lost bool) iter.Seq2[Receipt, error] {
	return pages(q, func(r *Receipt) int64 { return r.Seq }, nil, func(q Query, limit int) ([]Receipt, error) {
		if q.From != "" {
			return nil, invalid("sender", "is not known of receipts")
		}
		where := q.inboxes()
		q.records(&where, "", "at")
		if lost {
			where.terms = append(where.terms, "state IN ('lost', 'unknown')") // as in the index
		}
		return sqlite.Select(ctx, j.db, "receipts", scanReceipt,
			"SELECT "+receiptColumns+" WHERE "+where.String()+" ORDER BY seq "+q.order()+" LIMIT ?+0", where.limited(limit)...)
	})
}

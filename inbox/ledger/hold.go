package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// A Hold keeps the messages of one sender from being claimed for an inbox, because
// the two agents answered each other too often. It lasts until [Ledger.Release].
type Hold struct {
	InboxKey
	Sender string
	Reason string
	Since  time.Time // kept to the microsecond, given in UTC
}

// Exchanges says how far two agents have come in answering each other.
type Exchanges struct {
	Hops  int       // how often in a row the sender has answered an answer; 0 for a message that is no such answer
	Since time.Time // when the message with the hop count asked for was claimed; zero if there is none
}

// Exchanges counts for a message that sender has written to the inbox and that is to
// be claimed now. It is one hop further than the last message of that sender if the
// member has written to the sender in between: that was claimed for the sender, or
// [Ledger.Answered] tells. Messages without an answer in between, such as those of a burst, share
// their count. It begins again at 0 when nothing came for quiet, when a person has
// written to either of them, under one of the names of people or in words that were
// typed, and after [Ledger.Release].
//
// Since is that of the message which is back hops before this one.
func (l *Ledger) Exchanges(ctx context.Context, p InboxKey, sender string, people []string, now time.Time, quiet time.Duration, back int) (Exchanges, error) {
	if err := p.check(); err != nil {
		return Exchanges{}, err
	}
	peer := p
	peer.Inbox = sender
	var x Exchanges
	err := l.db.Do(ctx, "exchanges", func(c *sqlite.Conn) error {
		x = Exchanges{} // f runs again when the file was busy
		inboxID, err := p.number(c)
		if err != nil || inboxID == 0 {
			return err
		}
		other, err := peer.number(c) // 0 if that inbox is not relayed
		if err != nil {
			return err
		}
		last, found, err := row(c, `SELECT seq, hops, claimed_at FROM deliveries WHERE inbox_id=?1 AND sender=?2 AND person=0
			AND seq>coalesce((SELECT after FROM holds WHERE inbox_id=?1 AND sender=?2), 0) ORDER BY seq DESC LIMIT 1`, inboxID, sender)
		if err != nil || !found || now.Sub(moment(last[2])) > quiet {
			return err
		}
		args := []sqlite.Value{integer(last[0]), inboxID, other}
		for _, name := range people {
			args = append(args, name)
		}
		_, reset, err := row(c, `SELECT 1 FROM deliveries WHERE seq>? AND inbox_id IN (?, ?) AND (person<>0 OR sender IN (`+placeholders(len(people))+`)) LIMIT 1`, args...)
		if err != nil || reset {
			return err
		}
		_, answered, err := row(c, `SELECT 1 FROM deliveries WHERE seq>?1 AND inbox_id=?2 AND sender=?3 AND person=0
			UNION ALL SELECT 1 FROM replies WHERE inbox_id=?4 AND recipient IN (?5, '*') AND seq>=?1 LIMIT 1`,
			integer(last[0]), other, p.Inbox, inboxID, sender)
		if err != nil {
			return err
		}
		if x.Hops = int(integer(last[1])); answered {
			x.Hops++
		}
		if x.Hops < back || x.Hops == 0 {
			return nil
		}
		first, found, err := row(c, "SELECT claimed_at FROM deliveries WHERE inbox_id=? AND sender=? AND person=0 AND hops=? ORDER BY seq DESC LIMIT 1",
			inboxID, sender, int64(x.Hops-back))
		if found {
			x.Since = moment(first[0])
		}
		return err
	})
	if err != nil {
		return Exchanges{}, err
	}
	return x, nil
}

// Answered records that the agent of an inbox has written to these members now; "*"
// is all of them. It does not wait for the disk.
func (l *Ledger) Answered(ctx context.Context, p InboxKey, recipients ...string) error {
	if err := p.check(); err != nil {
		return err
	}
	return l.write(ctx, "answered", quick, func(c *sqlite.Conn) error {
		inboxID, err := p.number(c)
		if err != nil || inboxID == 0 {
			return err
		}
		for _, name := range recipients {
			_, err := c.Exec(`INSERT INTO replies (inbox_id, recipient, seq) VALUES (?, ?, (SELECT coalesce(max(seq), 0) FROM deliveries))
				ON CONFLICT DO UPDATE SET seq=excluded.seq`, inboxID, name)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// row gives the first row of a query.
func row(c *sqlite.Conn, query string, args ...sqlite.Value) (v []sqlite.Value, found bool, err error) {
	s, err := c.Statement(query)
	if err != nil {
		return nil, false, err
	}
	err = s.Query(func(columns []sqlite.Value) error {
		if !found {
			v, found = append(v, columns...), true
		}
		return nil
	}, args...)
	return v, found, err
}

// Hold records, durably, that the messages of a sender are held. One that is held
// already stays as it is. A zero Since is now.
func (l *Ledger) Hold(ctx context.Context, h Hold) error {
	if err := h.InboxKey.check(); err != nil {
		return err
	}
	return l.write(ctx, "hold", durable, func(c *sqlite.Conn) error {
		inboxID, err := h.InboxKey.add(c)
		if err != nil {
			return err
		}
		_, err = c.Exec(`INSERT INTO holds (inbox_id, sender, held, reason, at, after) VALUES (?, ?, 1, ?, ?, 0)
			ON CONFLICT DO UPDATE SET held=1, reason=excluded.reason, at=excluded.at WHERE held=0`, inboxID, h.Sender, h.Reason, micros(h.Since))
		return err
	})
}

// Holds lists what is held for the relays of a Claude root, by team, its age, inbox and
// sender; of every root if root is "".
func (l *Ledger) Holds(ctx context.Context, root string) ([]Hold, error) {
	return l.holds(ctx, "(?1='' OR root=?1) AND held<>0 ORDER BY root, team, created_at, inbox, sender", root)
}

// Held lists what is held for one inbox, by sender.
func (l *Ledger) Held(ctx context.Context, p InboxKey) ([]Hold, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return l.holds(ctx, "root=? AND team=? AND created_at=? AND inbox=? AND held<>0 ORDER BY sender", p.args()...)
}

func (l *Ledger) holds(ctx context.Context, rest string, args ...sqlite.Value) ([]Hold, error) {
	var list []Hold
	err := l.db.Do(ctx, "holds", func(c *sqlite.Conn) error {
		list = nil // f runs again when the file was busy
		s, err := c.Statement("SELECT root, team, created_at, inbox, sender, reason, at FROM inboxes JOIN holds USING (inbox_id) WHERE " + rest)
		if err != nil {
			return err
		}
		return s.Query(func(v []sqlite.Value) error {
			list = append(list, Hold{
				InboxKey: InboxKey{Root: text(v[0]), Team: text(v[1]), CreatedAt: integer(v[2]), Inbox: text(v[3])},
				Sender:   text(v[4]), Reason: text(v[5]), Since: moment(v[6]),
			})
			return nil
		}, args...)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Release ends a hold, durably, and counts the exchanges of the two agents from 0
// again, in both directions: what the other has held of this one is released, too.
// It tells which holds ended; there are none if nothing was held.
func (l *Ledger) Release(ctx context.Context, p InboxKey, sender string) (released []Hold, err error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	peer := p
	peer.Inbox = sender
	both := []Hold{{InboxKey: p, Sender: sender}, {InboxKey: peer, Sender: p.Inbox}}
	err = l.write(ctx, "release", durable, func(c *sqlite.Conn) error {
		released = nil
		for _, h := range both {
			inboxID, err := h.InboxKey.number(c)
			if err != nil {
				return err
			}
			was, found, err := row(c, "SELECT reason, at FROM holds WHERE inbox_id=? AND sender=? AND held<>0", inboxID, h.Sender)
			if err != nil {
				return err
			}
			if found {
				h.Reason, h.Since = text(was[0]), moment(was[1])
				released = append(released, h)
			}
		}
		if len(released) == 0 {
			return nil
		}
		for _, h := range both {
			inboxID, err := h.InboxKey.add(c)
			if err != nil {
				return err
			}
			_, err = c.Exec(`INSERT INTO holds (inbox_id, sender, held, reason, at, after)
				VALUES (?, ?, 0, ?, ?, (SELECT coalesce(max(seq), 0) FROM deliveries))
				ON CONFLICT DO UPDATE SET held=0, reason=excluded.reason, at=excluded.at, after=excluded.after`,
				inboxID, h.Sender, "the messages of "+h.Sender+" were released", micros(time.Time{}))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return released, nil
}

package ledger

import (
	"context"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Holds are the holds of senders. The tables are holds and replies.
type Holds struct{ *file }

// A Hold makes the messages of one sender to an inbox wait unclaimed, because the two agents answered each other too
// often, or a person decided it. It lasts until [Holds.Release].
type Hold struct {
	inbox.InboxKey
	Sender string
	Reason string
	Since  time.Time // kept to the microsecond, returned in UTC
}

// Exchanges is how often two agents have answered each other.
type Exchanges struct {
	Hops  int       // how often in a row the sender has answered an answer; 0 if it is no such answer
	Since time.Time // when the message back hops earlier was claimed; zero if there is none
}

// Exchanges counts the hops of a message from sender that is about to be claimed for an inbox. They are those of the
// sender's last message, and one more if the member has written in between, as a claim for the sender or
// [Holds.Answered] shows.
//
// The count starts again at 0 if the sender wrote nothing for the duration quiet, if a person wrote to either agent,
// as one of people or in a user prompt, and after [Holds.Release]. [Skipped] messages do not count. Since is the time
// of the message that was back hops before this one.
func (l Holds) Exchanges(ctx context.Context, k inbox.InboxKey, sender string, people []string, now time.Time, quiet time.Duration, back int) (Exchanges, error) {
	if err := checkInbox(k); err != nil {
		return Exchanges{}, err
	}
	peer := k
	peer.Inbox = sender
	var x Exchanges
	err := l.db.Do(ctx, "exchanges", func(c *sqlite.Conn) error {
		x = Exchanges{} // this function runs again if the file was busy
		inboxID, err := inboxNumber(c, k)
		if err != nil || inboxID == 0 {
			return err
		}
		other, err := inboxNumber(c, peer) // 0 if the sender has no relay
		if err != nil {
			return err
		}
		type message struct {
			seq, hops int64
			claimed   time.Time
		}
		last, found, err := sqlite.One(c, func(v sqlite.Row) message { return message{v.Int(0), v.Int(1), v.Time(2)} },
			`SELECT seq, hops, claimed_at FROM deliveries WHERE inbox_id=?1 AND sender=?2 AND person=0 AND state<>'skipped'
			AND seq>coalesce((SELECT after FROM holds WHERE inbox_id=?1 AND sender=?2), 0) ORDER BY seq DESC LIMIT 1`, inboxID, sender)
		if err != nil || !found || now.Sub(last.claimed) > quiet {
			return err
		}
		args := []sqlite.Value{last.seq, inboxID, other}
		for _, name := range people {
			args = append(args, name)
		}
		reset, err := c.Number(`SELECT 1 FROM deliveries WHERE seq>? AND inbox_id IN (?, ?) AND (person<>0 OR sender IN (`+placeholders(len(people))+`)) LIMIT 1`, args...)
		if err != nil || reset != 0 {
			return err
		}
		answered, err := c.Number(`SELECT 1 FROM deliveries WHERE seq>?1 AND inbox_id=?2 AND sender=?3 AND person=0 AND state<>'skipped'
			UNION ALL SELECT 1 FROM replies WHERE inbox_id=?4 AND recipient IN (?5, '*') AND seq>=?1 LIMIT 1`,
			last.seq, other, k.Inbox, inboxID, sender)
		if err != nil {
			return err
		}
		if x.Hops = int(last.hops + answered); x.Hops < back || x.Hops == 0 {
			return nil
		}
		return c.Query(func(v sqlite.Row) { x.Since = v.Time(0) },
			"SELECT claimed_at FROM deliveries WHERE inbox_id=? AND sender=? AND person=0 AND state<>'skipped' AND hops=? ORDER BY seq DESC LIMIT 1",
			inboxID, sender, x.Hops-back)
	})
	return x, err
}

// Answered records that the agent of an inbox has just written to the recipients; "*" means all members. It does not
// wait for the disk.
func (l Holds) Answered(ctx context.Context, k inbox.InboxKey, recipients ...string) error {
	if err := checkInbox(k); err != nil {
		return err
	}
	return l.write(ctx, "answered", quick, func(c *sqlite.Conn) error {
		inboxID, err := inboxNumber(c, k)
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

// Hold records, durably, that the messages of senders are held, all or none. It does not change a hold that exists. A
// zero Since is now. From then on [Deliveries.Claim] refuses new rows of these senders. Rows that were claimed before
// are delivered.
func (l Holds) Hold(ctx context.Context, holds ...Hold) error {
	for _, h := range holds {
		if err := checkInbox(h.InboxKey); err != nil {
			return err
		}
	}
	return l.write(ctx, "hold", durable, func(c *sqlite.Conn) error {
		for _, h := range holds {
			inboxID, err := addInbox(c, h.InboxKey)
			if err != nil {
				return err
			}
			_, err = c.Exec(`INSERT INTO holds (inbox_id, sender, held, reason, at, after) VALUES (?, ?, 1, ?, ?, 0)
				ON CONFLICT DO UPDATE SET held=1, reason=excluded.reason, at=excluded.at WHERE held=0`, inboxID, h.Sender, h.Reason, micros(h.Since))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// List returns the holds of a Claude root, or of every root if root is "", sorted by root,
// team, creation time of the team, inbox and sender.
func (l Holds) List(ctx context.Context, root string) ([]Hold, error) {
	return l.list(ctx, "(?1='' OR root=?1) AND held<>0 ORDER BY root, team, created_at, inbox, sender", root)
}

// Held lists the holds of one inbox, sorted by sender.
func (l Holds) Held(ctx context.Context, k inbox.InboxKey) ([]Hold, error) {
	if err := checkInbox(k); err != nil {
		return nil, err
	}
	return l.list(ctx, thisInbox+" AND held<>0 ORDER BY sender", inboxArgs(k)...)
}

func (l Holds) list(ctx context.Context, rest string, args ...sqlite.Value) ([]Hold, error) {
	return sqlite.Select(ctx, l.db, "holds", func(v sqlite.Row) Hold {
		return Hold{InboxKey: scanKey(v, 0), Sender: v.Text(4), Reason: v.Text(5), Since: v.Time(6)}
	}, "SELECT root, team, created_at, inbox, sender, reason, at FROM inboxes JOIN holds USING (inbox_id) WHERE "+rest, args...)
}

// Release ends a hold, durably, together with the hold in the opposite direction, and counts the exchanges of the two
// agents from 0 again. It returns the holds that ended. Without a hold, it does nothing.
func (l Holds) Release(ctx context.Context, k inbox.InboxKey, sender string) (released []Hold, err error) {
	if err := checkInbox(k); err != nil {
		return nil, err
	}
	peer := k
	peer.Inbox = sender
	both := []Hold{{InboxKey: k, Sender: sender}, {InboxKey: peer, Sender: k.Inbox}}
	err = l.write(ctx, "release", durable, func(c *sqlite.Conn) error {
		released = nil
		for _, h := range both {
			err := c.Query(func(v sqlite.Row) {
				h.Reason, h.Since = v.Text(0), v.Time(1)
				released = append(released, h)
			}, "SELECT reason, at FROM holds WHERE sender=? AND held<>0 AND inbox_id="+thisInboxID, inboxArgs(h.InboxKey, h.Sender)...)
			if err != nil {
				return err
			}
		}
		if len(released) == 0 {
			return nil
		}
		for _, h := range both {
			inboxID, err := addInbox(c, h.InboxKey)
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
	return released, err
}

package ledger

import (
	"bytes"
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// Arrivals are the messages from other machines. The table is incoming.
type Arrivals struct{ *file }

// An Incoming is a message that came from another machine.
type Incoming struct {
	N       int64 // order of arrival, set by the ledger
	Machine string
	Team    string // as the machine named it
	Member  string
	ID      string // of its delivery on the other machine
	Digest  [32]byte
	From    string // as the machine claims; cannot be checked
	Raw     []byte // the message; empty once it was put into its inbox, and answered if it asks, or refused
	Asks    bool   // it waits for an answer
	Sent    time.Time
	At      time.Time

	Stage  Stage // from [StageReceived] on
	Reason string
	Reach  string // why nobody will read it; may be empty

	// Where it was put; empty before.
	Root      string
	Recipient string // the member
	Delivery  string // its uuid, if it became a [Delivery]
}

// Receive records messages that came from a machine, all in one commit, durably. [Arrivals.Untold] then returns their
// stages, even for messages that were recorded before.
//
// It refuses a message whose id belongs to another message. It also refuses a message whose date is no later than
// that of a forgotten one, because it may be that message again. It returns receipts for the refused messages.
//
// It fails with [ErrNoMachine], and with *[ValueError].
func (l Arrivals) Receive(ctx context.Context, machine string, messages ...Incoming) (refused []Receipt, err error) {
	for _, m := range messages {
		if err := names("team", m.Team, "member", m.Member, "id", m.ID, "from", m.From); err != nil {
			return nil, err
		}
		if err := content("message", m.Raw); err != nil {
			return nil, err
		}
	}
	err = l.write(ctx, "receive", durable, func(c *sqlite.Conn) error {
		refused = nil
		at := micros(time.Time{})
		horizons, err := sqlite.All(c, func(v sqlite.Row) int64 { return v.Int(0) }, "SELECT horizon FROM machines WHERE machine=?", machine)
		if err != nil {
			return err
		}
		if len(horizons) == 0 {
			return ErrNoMachine
		}
		for _, m := range messages {
			was, found, err := sqlite.One(c, scanIncoming, "SELECT "+incomingColumns+" FROM incoming WHERE machine=? AND team=? AND member=? AND id=?", machine, m.Team, m.Member, m.ID)
			r := Receipt{ID: m.ID, Stage: StageRefused}
			switch {
			case err != nil:
				return err
			case found && !bytes.Equal(was.Digest[:], m.Digest[:]):
				r.Reason = "another message was sent under this id"
			case found:
				if err := untold(c, machine, m.ID); err != nil {
					return err
				}
				continue
			case m.Sent.UnixMicro() <= horizons[0]:
				r.Reason = "it is older than what is remembered of this machine, so that it may have come before"
			default:
				if err := addIncoming(c, machine, m, at); err != nil {
					return err
				}
				continue
			}
			refused = append(refused, r)
		}
		return nil
	})
	return refused, err
}

func addIncoming(c *sqlite.Conn, machine string, m Incoming, at int64) error {
	_, err := c.Exec(`INSERT INTO incoming (machine, team, member, id, digest, sender, raw, asks, sent, stage, reason, reach, root, recipient, delivery, told, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'received', '', '', '', '', '', '', ?)`,
		machine, m.Team, m.Member, m.ID, m.Digest[:], m.From, m.Raw, m.Asks, m.Sent.UnixMicro(), at)
	return err
}

const incomingColumns = "n, machine, team, member, id, digest, sender, raw, sent, at, stage, reason, reach, root, recipient, delivery, asks"

func scanIncoming(v sqlite.Row) Incoming {
	m := Incoming{
		N: v.Int(0), Machine: v.Text(1), Team: v.Text(2), Member: v.Text(3), ID: v.Text(4), From: v.Text(6), Raw: v.Blob(7), Sent: v.Time(8), At: v.Time(9),
		Stage: Stage(v.Text(10)), Reason: v.Text(11), Reach: v.Text(12), Root: v.Text(13), Recipient: v.Text(14), Delivery: v.Text(15), Asks: v.Bool(16),
	}
	copy(m.Digest[:], v.Blob(5))
	return m
}

// After returns messages that were not yet put anywhere, in the order of arrival: at most limit, with N above after.
func (l Arrivals) After(ctx context.Context, after int64, limit int) ([]Incoming, error) {
	return l.list(ctx, "arrived", "stage='received' AND n>? ORDER BY n LIMIT ?+0", after, limit)
}

// Open returns at most limit messages, the newest first, that were put into their inboxes, and have no final stage: with
// N below before, unless that is 0. Those that were taken must have been taken after a time.
func (l Arrivals) Open(ctx context.Context, since time.Time, before int64, limit int) ([]Incoming, error) {
	return l.list(ctx, "open incoming", "stage IN ('verified', 'consumed') AND (stage='verified' OR at>?) AND (?2=0 OR n<?2) ORDER BY n DESC LIMIT ?3+0", since.UnixMicro(), before, limit)
}

// Tell makes [Arrivals.Untold] return messages again, by their ids, so that the machine gets new receipts.
func (l Arrivals) Tell(ctx context.Context, machine string, ids ...string) error {
	return l.write(ctx, "tell", quick, func(c *sqlite.Conn) error {
		for _, id := range ids {
			if err := untold(c, machine, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func untold(c *sqlite.Conn, machine, id string) error {
	_, err := c.Exec("UPDATE incoming SET told='' WHERE machine=? AND id=?", machine, id)
	return err
}

// Untold returns at most limit messages of a machine whose present stages it has not been told.
func (l Arrivals) Untold(ctx context.Context, machine string, limit int) ([]Incoming, error) {
	return l.list(ctx, "untold", "machine=? AND told<>stage ORDER BY n LIMIT ?+0", machine, limit)
}

func (l Arrivals) list(ctx context.Context, op, rest string, args ...sqlite.Value) ([]Incoming, error) {
	return sqlite.Select(ctx, l.db, op, scanIncoming, "SELECT "+incomingColumns+" FROM incoming WHERE "+rest, args...)
}

// Receipt returns the receipt of a message in its present stage.
func (m Incoming) Receipt() Receipt {
	return Receipt{ID: m.ID, Stage: m.Stage, Reason: m.Reason, Reach: m.Reach}
}

// Set records the stages of messages, and where they were put. It deletes their texts, which are now in an inbox or
// refused, except for messages that wait for answers. If a power cut takes back that a message was put somewhere, it
// is put there again under its id; so only other stages are recorded durably.
func (l Arrivals) Set(ctx context.Context, messages ...Incoming) error {
	level := quick
	for _, m := range messages {
		switch m.Stage {
		case StageVerified, StageConsumed, StageSeen:
		default:
			level = durable
		}
	}
	return l.write(ctx, "set incoming", level, func(c *sqlite.Conn) error {
		at := micros(time.Time{})
		for _, m := range messages {
			if _, err := c.Exec(`UPDATE incoming SET stage=?, reason=?, reach=?, root=?, recipient=?, delivery=?, at=?,
				raw=iif(?1='received' OR asks<>0, raw, x'') WHERE n=?`, string(m.Stage), m.Reason, m.Reach, m.Root, m.Recipient, m.Delivery, at, m.N); err != nil {
				return err
			}
		}
		return nil
	})
}

// Asking returns the messages that wait for answers, and reached their stage after a time.
func (l Arrivals) Asking(ctx context.Context, since time.Time) ([]Incoming, error) {
	return l.list(ctx, "asking", "asks<>0 AND stage NOT IN ('received', 'refused') AND at>? ORDER BY n", since.UnixMicro())
}

// GotAnswer records, durably, that a message no longer waits for an answer.
func (l Arrivals) GotAnswer(ctx context.Context, m Incoming) error {
	return l.exec(ctx, "answered", durable, "UPDATE incoming SET asks=0, raw=x'' WHERE n=?", m.N)
}

// Reported records that a machine was told the stages of messages. It does not wait for the disk.
func (l Arrivals) Reported(ctx context.Context, messages ...Incoming) error {
	return l.write(ctx, "told", quick, func(c *sqlite.Conn) error {
		for _, m := range messages {
			if _, err := c.Exec("UPDATE incoming SET told=? WHERE n=?", string(m.Stage), m.N); err != nil {
				return err
			}
		}
		return nil
	})
}

// Prune forgets messages that were put somewhere, or refused, and reached their stage before a time.
func (l Arrivals) Prune(ctx context.Context, before time.Time) (err error) {
	for gone := int64(pruneRows); gone == pruneRows && err == nil; {
		err = l.write(ctx, "prune incoming", durable, func(c *sqlite.Conn) (err error) {
			gone, err = pruneIncoming(c, before.UnixMicro())
			return err
		})
	}
	return err
}

// pruneIncoming is a step of Prune. Later messages with dates no later than those of the forgotten ones are refused.
// A date after the message's stage counts as the time of that stage.
func pruneIncoming(c *sqlite.Conn, at int64) (int64, error) {
	const old = "SELECT n FROM incoming WHERE at<?1 AND stage<>'received' ORDER BY n LIMIT ?2+0"
	if _, err := c.Exec(`UPDATE machines SET horizon=max(horizon, coalesce((SELECT max(min(sent, at)) FROM incoming i WHERE i.machine=machines.machine AND n IN (`+old+`)), 0))`, at, pruneRows); err != nil {
		return 0, err
	}
	return c.Exec("DELETE FROM incoming WHERE n IN ("+old+")", at, pruneRows)
}

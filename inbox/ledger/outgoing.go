package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"teambridge/inbox/sqlite"
)

// An Outbox has the messages to other machines. The table is outgoing.
type Outbox struct{ *file }

// MaxOutgoing is how many messages can wait for one machine.
const MaxOutgoing = 10_000

// ErrOutboxFull means that [MaxOutgoing] messages wait for a machine.
var ErrOutboxFull = fmt.Errorf("%d messages wait for this machine", MaxOutgoing)

// ErrNoMachine means that there is no link with a machine.
var ErrNoMachine = errors.New("there is no link with this machine")

// Stage is how far a message has come on its way to another machine.
type Stage string

// The stages. Up to stored, only this ledger answers for the message.
const (
	StageQueued   Stage = "queued"   // in the outbox
	StageStored   Stage = "stored"   // the hub has it
	StageReceived Stage = "received" // the ledger of the other machine has it
	StageVerified Stage = "verified" // it was put where it belongs there, as a local message is
	StageConsumed Stage = "consumed" // its agent took it
	StageSeen     Stage = "seen"     // its agent's model was given it
	StageRefused  Stage = "refused"  // the other machine does not take it
	StageLost     Stage = "lost"     // another program overwrote it there
	StageUnknown  Stage = "unknown"  // nobody knows what became of it
	StageFailed   Stage = "failed"   // it never reached the hub

	// StageReset is only of receipts: the ledger was not given the message, since it was meant for
	// one that this one has replaced.
	StageReset Stage = "reset"
)

// Final reports whether nothing more is to be learned.
func (s Stage) Final() bool {
	switch s {
	case StageQueued, StageStored, StageReceived, StageVerified, StageConsumed:
		return false
	}
	return true
}

// rank orders the stages: a receipt never takes one back.
func (s Stage) rank() int {
	switch s {
	case StageQueued:
		return 0
	case StageStored:
		return 1
	case StageReceived:
		return 2
	case StageVerified:
		return 3
	case StageConsumed:
		return 4
	case StageSeen:
		return 6
	}
	return 5
}

// An Outgoing is a message to another machine. Its delivery is claimed while it is queued,
// written when it is stored, accepted when it is received and done from verified on. It has
// failed if it was refused or lost, or if nobody knows what became of it.
type Outgoing struct {
	Delivery
	Machine string
	There   string // the member's name on the machine
	At      string // the team's name on the machine
	Stage   Stage
	StageAt time.Time // when it came to it
	Since   time.Time // when it was put into the outbox
	Reach   string    // why nobody will read it there, as the machine says; ""
}

// Add records a message to a member elsewhere as [Deliveries.AddPrompts] does. It returns the
// message as it is recorded, and whether it was there before. It fails as AddPrompts does, and
// with [ErrNoMachine] and [ErrOutboxFull].
func (l Outbox) Add(ctx context.Context, m Outgoing, digest [32]byte) (_ Outgoing, again bool, err error) {
	p := Prompt{m.Delivery, digest}
	if err := cmp.Or(checkKey(p.key()), p.check(), names("machine", m.Machine, "member", m.There, "team", m.At)); err != nil {
		return Outgoing{}, false, err
	}
	err = l.write(ctx, "add outgoing", durable, func(c *sqlite.Conn) error {
		added, err := addPrompt(c, &p)
		if again = added.Again; err != nil || again {
			return err
		}
		return addOutgoing(c, added.Seq, &m)
	})
	if err != nil {
		return Outgoing{}, false, err
	}
	now, found, err := l.Outgoing(ctx, m.UUID)
	if err == nil && !found {
		err = unknown("add outgoing", m.UUID)
	}
	return now, again, err
}

func addOutgoing(c *sqlite.Conn, seq int64, m *Outgoing) error {
	if n, err := c.Number("SELECT count(*) FROM machines WHERE machine=?", m.Machine); err != nil || n == 0 {
		return cmp.Or(err, fmt.Errorf("ledger: message to %s: %w", m.Machine, ErrNoMachine))
	}
	// They are counted only if there can be so many: seq is that of all deliveries.
	n, err := c.Number(`SELECT seq - min(
		coalesce((SELECT seq FROM outgoing WHERE machine=?1 AND stage='queued' ORDER BY seq LIMIT 1), seq),
		coalesce((SELECT seq FROM outgoing WHERE machine=?1 AND stage='stored' ORDER BY seq LIMIT 1), seq)) FROM (SELECT ?2 AS seq)`, m.Machine, seq)
	if err == nil && n >= MaxOutgoing {
		n, err = c.Number(`SELECT count(*) FROM (SELECT 1 FROM outgoing WHERE machine=?1 AND stage='queued'
			UNION ALL SELECT 1 FROM outgoing WHERE machine=?1 AND stage='stored' LIMIT ?2)`, m.Machine, MaxOutgoing)
	}
	if err != nil || n >= MaxOutgoing {
		return cmp.Or(err, fmt.Errorf("ledger: message to %s: %w", m.Machine, ErrOutboxFull))
	}
	at := micros(m.Delivery.At)
	_, err = c.Exec("INSERT INTO outgoing (seq, machine, team, member, stage, at, since, tried, reach) VALUES (?, ?, ?, ?, 'queued', ?, ?, 0, '') ON CONFLICT DO NOTHING", seq, m.Machine, m.At, m.There, at, at)
	return err
}

// Claim claims rows of an inbox, as [Deliveries.Claim] does, as messages to another machine,
// in one commit. It also fails with [ErrNoMachine] and [ErrOutboxFull].
func (l Outbox) Claim(ctx context.Context, ms ...Outgoing) error {
	for i := range ms {
		if err := cmp.Or(ms[i].Delivery.check(), names("machine", ms[i].Machine, "member", ms[i].There, "team", ms[i].At)); err != nil {
			return err
		}
	}
	return l.write(ctx, "claim outgoing", durable, func(c *sqlite.Conn) error {
		for i := range ms {
			seq, err := claim(c, &ms[i].Delivery)
			if err == nil {
				err = addOutgoing(c, seq, &ms[i])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Outgoing returns the message to another machine with that uuid, and whether there is one.
func (l Outbox) Outgoing(ctx context.Context, uuid string) (Outgoing, bool, error) {
	return first(l.list(ctx, "outgoing", "seq=(SELECT seq FROM deliveries WHERE uuid=?)", uuid))
}

// Asked reports whether the person has written to a machine, as far as the ledger remembers. What agents
// write has the team of its sender.
func (l Outbox) Asked(ctx context.Context, machine string) (bool, error) {
	n, err := l.db.Number(ctx, "asked", "SELECT EXISTS (SELECT 1 FROM outgoing JOIN deliveries USING (seq) WHERE machine=? AND person=1 AND instr(sender, '@')=0)", machine)
	return n > 0, err
}

// Next returns the next messages that the hub is to store for a machine, in order. It leaves
// out rows that are not marked yet. It returns at most limit messages whose contents have at most so
// many bytes in all, but always the first one.
func (l Outbox) Next(ctx context.Context, machine string, limit, bytes int) ([]Outgoing, error) {
	list, err := l.list(ctx, "next outgoing", "outgoing.machine=? AND outgoing.stage='queued' AND marked=1 ORDER BY seq LIMIT ?", machine, limit)
	for i, m := range list {
		if bytes -= len(m.Raw); bytes < 0 && i > 0 {
			return list[:i], err
		}
	}
	return list, err
}

// Open returns messages to a machine that the hub has, and of which nothing final is
// known, in order: at most limit, after that with a Seq.
func (l Outbox) Open(ctx context.Context, machine string, after int64, limit int) ([]Outgoing, error) {
	return l.list(ctx, "open outgoing", `seq IN (SELECT seq FROM (SELECT seq FROM outgoing WHERE machine=?1 AND stage='stored' AND seq>?2
		UNION ALL SELECT seq FROM outgoing WHERE machine=?1 AND stage IN ('received', 'verified', 'consumed') AND seq>?2) ORDER BY seq LIMIT ?3) ORDER BY seq`, machine, after, limit)
}

// list returns those for which a condition holds. The name of a column of deliveries is
// ambiguous there if the table outgoing has it, too.
func (l Outbox) list(ctx context.Context, op, rest string, args ...sqlite.Value) ([]Outgoing, error) {
	return sqlite.Select(ctx, l.db, op, func(v sqlite.Row) Outgoing {
		o := Outgoing{
			Delivery: scanDelivery(v), Machine: v.Text(23), There: v.Text(24), At: v.Text(25), Stage: Stage(v.Text(26)), StageAt: v.Time(27), Since: v.Time(28), Reach: v.Text(29),
		}
		o.Mode, o.Raw = v.Blob(21), v.Blob(22)
		return o
	}, `SELECT uuid, root, inboxes.team, created_at, inbox, seq, key, occurrence, id, sender, kind, person, isolated, marked, frame, state, reason, deliveries.at, summary, color, hops,
		mode, raw, machine, outgoing.member, outgoing.team, stage, outgoing.at, since, reach
		FROM outgoing CROSS JOIN deliveries USING (seq) CROSS JOIN inboxes USING (inbox_id) JOIN contents USING (seq) WHERE `+rest, args...)
}

// Sending records that the hub is about to be given messages. It does not wait for the disk.
func (l Outbox) Sending(ctx context.Context, uuids ...string) error {
	return l.write(ctx, "sending", quick, func(c *sqlite.Conn) error {
		for _, uuid := range uuids {
			if _, err := c.Exec("UPDATE outgoing SET tried=tried+1 WHERE seq=(SELECT seq FROM deliveries WHERE uuid=?)", uuid); err != nil {
				return err
			}
		}
		return nil
	})
}

// Unsent takes back what [Outbox.Sending] recorded last: the hub has refused it. A message that was given
// up in between, because it might have arrived, is queued again. It does not wait for the disk.
func (l Outbox) Unsent(ctx context.Context, uuids ...string) error {
	return l.write(ctx, "unsent", quick, func(c *sqlite.Conn) error {
		at := micros(time.Time{})
		for _, uuid := range uuids {
			if _, err := c.Exec("UPDATE outgoing SET tried=tried-1 WHERE tried>0 AND seq=(SELECT seq FROM deliveries WHERE uuid=?)", uuid); err != nil {
				return err
			}
			if _, err := c.Exec(`UPDATE deliveries SET state='claimed', reason='', at=? WHERE uuid=? AND state='failed'
				AND seq IN (SELECT seq FROM outgoing JOIN machines USING (machine) WHERE stage='unknown' AND tried=0)`, at, uuid); err != nil {
				return err
			}
		}
		return nil
	})
}

// Stored records that the hub has messages. It does not wait for the disk: after a power cut they
// are sent again.
func (l Outbox) Stored(ctx context.Context, uuids ...string) error {
	return l.write(ctx, "stored", quick, func(c *sqlite.Conn) error {
		at := micros(time.Time{})
		for _, uuid := range uuids {
			if err := advanceOutgoing(c, "", Receipt{ID: uuid, Stage: StageStored}, at); err != nil {
				return err
			}
		}
		return nil
	})
}

// Again queues again what has been stored for a machine since before a time. It returns how many
// messages that are.
func (l Outbox) Again(ctx context.Context, machine string, before time.Time) (n int, err error) {
	err = l.write(ctx, "again", quick, func(c *sqlite.Conn) error {
		changed, err := c.Exec("UPDATE outgoing SET stage='queued', at=? WHERE machine=? AND stage='stored' AND at<?", micros(time.Time{}), machine, before.UnixMicro())
		n = int(changed)
		return err
	})
	return n, err
}

// Expire ends what has waited for a machine, any machine, since before a time: it has
// failed if the hub never had it, and else nobody knows what became of it. It returns how many.
func (l Outbox) Expire(ctx context.Context, before time.Time, reason string) (n int, err error) {
	if n, err := l.db.Number(ctx, "expire outgoing", "SELECT count(*) FROM outgoing WHERE "+unconfirmed+" AND since<?", before.UnixMicro()); err != nil || n == 0 {
		return 0, err
	}
	err = l.write(ctx, "expire outgoing", durable, func(c *sqlite.Conn) (err error) {
		n, err = failOutgoing(c, unconfirmed+" AND since<?", reason, before.UnixMicro())
		return err
	})
	return n, err
}

// A Receipt says how far a message has come on the machine that it was sent to.
type Receipt struct {
	ID     string `json:"id"` // of the delivery that it is at its sender
	Stage  Stage  `json:"stage"`
	Reason string `json:"reason,omitempty"`
	Reach  string `json:"reach,omitempty"` // why nobody will read it
}

// Confirm records receipts of a machine. What is no message to it, or has come further, is left as
// it is. It does not wait for the disk: after a power cut the machine is asked again.
func (l Outbox) Confirm(ctx context.Context, machine string, receipts ...Receipt) error {
	return l.write(ctx, "confirm", quick, func(c *sqlite.Conn) error {
		at := micros(time.Time{})
		for _, r := range receipts {
			if err := advanceOutgoing(c, machine, r, at); err != nil {
				return err
			}
		}
		return nil
	})
}

// advanceOutgoing brings a message to a stage, if it has not come further. machine is whose
// receipt it is, or "".
func advanceOutgoing(c *sqlite.Conn, machine string, r Receipt, at int64) error {
	type progress struct {
		seq     int64
		machine string
		stage   Stage
		state   DeliveryState
	}
	now, found, err := sqlite.One(c, func(v sqlite.Row) progress {
		return progress{v.Int(0), v.Text(1), Stage(v.Text(2)), DeliveryState(v.Text(3))}
	}, "SELECT seq, machine, stage, state FROM deliveries JOIN outgoing USING (seq) WHERE uuid=?", r.ID)
	was := now.stage.rank()
	if now.stage == StageUnknown && r.Stage.rank() < StageUnknown.rank() { // what was given up may still turn out to have arrived
		was = StageStored.rank()
	}
	if err != nil || !found || machine != "" && now.machine != machine || r.Stage.rank() <= was || now.state == Dropped {
		return err
	}
	if r.Stage == StageReset {
		_, err := c.Exec("UPDATE outgoing SET stage='queued', at=?, tried=0 WHERE seq=? AND stage='stored'", at, now.seq)
		return err
	}
	if now.stage.Final() && now.stage != StageUnknown {
		return nil
	}
	state, reason := Done, ""
	switch r.Stage {
	case StageStored:
		state = FrameWritten
	case StageReceived:
		state = Accepted
	case StageVerified, StageConsumed, StageSeen:
	case StageRefused:
		state, reason = Failed, CauseRefused.Reason(r.Reason)
	case StageLost:
		state, reason = Failed, CauseLost.Reason(r.Reason)
	case StageUnknown:
		state, reason = Failed, CauseUnknown.Reason(r.Reason)
	default:
		return nil // of a version that has more stages
	}
	if state != now.state {
		if _, err := c.Exec("UPDATE deliveries SET state=?, reason=?, at=? WHERE seq=?", string(state), reason, at, now.seq); err != nil {
			return err
		}
	}
	_, err = c.Exec("UPDATE outgoing SET stage=?, at=?, reach=? WHERE seq=?", string(r.Stage), at, r.Reach, now.seq)
	return err
}

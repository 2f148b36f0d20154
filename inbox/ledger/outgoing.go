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

// MaxOutgoing is the largest number of messages that can wait for one machine.
const MaxOutgoing = 10_000

// ErrOutboxFull means that [MaxOutgoing] messages wait for a machine.
var ErrOutboxFull = fmt.Errorf("%d messages wait for this machine", MaxOutgoing)

// ErrNoMachine means that there is no link with a machine.
var ErrNoMachine = errors.New("there is no link with this machine")

// Stage is how far a message has come on its way to another machine.
type Stage string

// The stages. Until received, only this ledger is certain to have the message.
const (
	StageQueued   Stage = "queued"   // in the outbox
	StageStored   Stage = "stored"   // the hub has it
	StageReceived Stage = "received" // the ledger of the other machine has it
	StageVerified Stage = "verified" // it is in its inbox there, as a local message would be
	StageConsumed Stage = "consumed" // its agent took it
	StageSeen     Stage = "seen"     // its agent's model has received it
	StageRefused  Stage = "refused"  // the other machine does not take it
	StageLost     Stage = "lost"     // another program overwrote it there
	StageUnknown  Stage = "unknown"  // it may have arrived
	StageFailed   Stage = "failed"   // it never reached the hub

	// StageReset is used only in receipts: the ledger did not get the message, because it was meant for an earlier
	// ledger of that machine.
	StageReset Stage = "reset"
)

// Final reports whether no further receipt is expected.
func (s Stage) Final() bool {
	switch s {
	case StageQueued, StageStored, StageReceived, StageVerified, StageConsumed:
		return false
	}
	return true
}

// rank orders the stages. A receipt never lowers the rank.
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

// An Outgoing is a message to another machine. Its delivery is claimed while the message is queued, written when it
// is stored, accepted when it is received and done from verified on. The delivery has failed if the message was
// refused, is lost, or is unknown.
type Outgoing struct {
	Delivery
	Machine string
	There   string // the member's name on the machine
	At      string // the team's name on the machine
	Stage   Stage
	StageAt time.Time // when it reached its stage
	Since   time.Time // when it was put into the outbox
	Reach   string    // why nobody will read it there, as the machine reports; may be empty
}

// Add records a message to a member on another machine, as [Deliveries.AddPrompts] does. It returns the recorded
// message, and whether it was recorded before. It fails as AddPrompts does, and with [ErrNoMachine] and
// [ErrOutboxFull].
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
	// The messages are counted only if seq, the number of all deliveries, has grown enough for the limit.
	n, err := c.Number(`SELECT seq - min(
		coalesce((SELECT seq FROM outgoing WHERE machine=?1 AND stage='queued' ORDER BY seq LIMIT 1), seq),
		coalesce((SELECT seq FROM outgoing WHERE machine=?1 AND stage='stored' ORDER BY seq LIMIT 1), seq)) FROM (SELECT ?2 AS seq)`, m.Machine, seq)
	if err == nil && n >= MaxOutgoing {
		n, err = c.Number(`SELECT count(*) FROM (SELECT 1 FROM outgoing WHERE machine=?1 AND stage='queued'
			UNION ALL SELECT 1 FROM outgoing WHERE machine=?1 AND stage='stored' LIMIT ?2+0)`, m.Machine, MaxOutgoing)
	}
	if err != nil || n >= MaxOutgoing {
		return cmp.Or(err, fmt.Errorf("ledger: message to %s: %w", m.Machine, ErrOutboxFull))
	}
	at := micros(m.Delivery.At)
	_, err = c.Exec("INSERT INTO outgoing (seq, machine, team, member, stage, at, since, tried, reach) VALUES (?, ?, ?, ?, 'queued', ?, ?, 0, '') ON CONFLICT DO NOTHING", seq, m.Machine, m.At, m.There, at, at)
	return err
}

// Claim claims rows of the inbox of a stand-in, as [Deliveries.Claim] does, as messages to another machine,
// in one commit, and records the use of the stand-in. It also fails with [ErrNoMachine] and [ErrOutboxFull].
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
			if err == nil && i == 0 {
				_, err = c.Exec("UPDATE standins SET used=?1 WHERE root=?2 AND team=?3 AND created_at=?4 AND member=?5", append([]sqlite.Value{micros(time.Time{})}, inboxArgs(ms[i].InboxKey)...)...)
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

// Asked reports whether the ledger has a message of the person to a machine since the link with it was made. In
// messages of agents, the sender has its team in its name.
func (l Outbox) Asked(ctx context.Context, machine string) (bool, error) {
	n, err := l.db.Number(ctx, "asked", "SELECT EXISTS (SELECT 1 FROM machines JOIN outgoing USING (machine) JOIN deliveries USING (seq) WHERE machine=? AND since>=machines.at AND person=1 AND instr(sender, '@')=0)", machine)
	return n > 0, err
}

// Next returns the next messages for the hub to store for a machine, in order. It leaves out rows that are not marked
// yet. It returns at most limit messages, with at most bytes of content in all, but always the first one.
func (l Outbox) Next(ctx context.Context, machine string, limit, bytes int) ([]Outgoing, error) {
	list, err := l.list(ctx, "next outgoing", "outgoing.machine=? AND outgoing.stage='queued' AND marked=1 ORDER BY seq LIMIT ?+0", machine, limit)
	for i, m := range list {
		if bytes -= len(m.Raw); bytes < 0 && i > 0 {
			return list[:i], err
		}
	}
	return list, err
}

// Open returns, in order, at most limit messages to a machine with a Seq higher than after that the hub has stored
// and whose stage is not final.
func (l Outbox) Open(ctx context.Context, machine string, after int64, limit int) ([]Outgoing, error) {
	return l.list(ctx, "open outgoing", `seq IN (SELECT seq FROM (SELECT seq FROM outgoing WHERE machine=?1 AND stage='stored' AND seq>?2
		UNION ALL SELECT seq FROM outgoing WHERE machine=?1 AND stage IN ('received', 'verified', 'consumed') AND seq>?2) ORDER BY seq LIMIT ?3+0) ORDER BY seq`, machine, after, limit)
}

// list returns the messages that match a condition. In it, columns of deliveries that outgoing also has need the name
// of their table.
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

// Sending records that messages are about to be given to the hub. It does not wait for the disk.
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

// Unsent takes back the last [Outbox.Sending] of messages that the hub has refused. A message that became unknown in
// between is queued again. Unsent does not wait for the disk.
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

// Stored records that the hub has stored messages. It does not wait for the disk: after a power cut they are sent
// again.
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

// Again queues the messages for a machine again that were stored before a time. It returns their number.
func (l Outbox) Again(ctx context.Context, machine string, before time.Time) (n int, err error) {
	err = l.write(ctx, "again", quick, func(c *sqlite.Conn) error {
		changed, err := c.Exec("UPDATE outgoing SET stage='queued', at=? WHERE machine=? AND stage='stored' AND at<?", micros(time.Time{}), machine, before.UnixMicro())
		n = int(changed)
		return err
	})
	return n, err
}

// Expire ends unconfirmed messages to all machines that were put into the outbox before a time. A message that was
// never given to the hub fails, any other becomes unknown. Expire returns their number.
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

// A Receipt is the stage of a message on the machine to which it was sent.
type Receipt struct {
	ID     string `json:"id"` // of its delivery in the sender's ledger
	Stage  Stage  `json:"stage"`
	Reason string `json:"reason,omitempty"`
	Reach  string `json:"reach,omitempty"` // why nobody will read it; may be empty
}

// Confirm records receipts of a machine. It ignores a receipt of an unknown message, and of one in a later stage. It
// does not wait for the disk: after a power cut the machine is asked again.
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

// advanceOutgoing brings a message to a stage, unless it is in a later one. machine is the sender of the receipt, or
// "".
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
	if now.stage == StageUnknown && r.Stage.rank() < StageUnknown.rank() { // it may turn out to have arrived
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
		return nil // a stage of a newer version
	}
	if state != now.state {
		if _, err := c.Exec("UPDATE deliveries SET state=?, reason=?, at=? WHERE seq=?", string(state), reason, at, now.seq); err != nil {
			return err
		}
	}
	_, err = c.Exec("UPDATE outgoing SET stage=?, at=?, reach=? WHERE seq=?", string(r.Stage), at, r.Reach, now.seq)
	return err
}

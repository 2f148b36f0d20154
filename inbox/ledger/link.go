package ledger

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"teambridge/inbox/sqlite"
)

// Links are the links with other machines, the teams that they share, and the stand-ins for their members. The tables
// are link, machines, shares and standins.
type Links struct{ *file }

// MachineTeamCreated stands for the creation time of teams on other machines, in milliseconds.
// Such a team is called TEAM@MACHINE.
const MachineTeamCreated = 1

// A Link has the name and the hub of this machine.
type Link struct {
	Name        string // of the machine
	Hub         string // the address of the hub; "" for none yet
	Trust       string // how the hub's certificate is checked; "" for the system's way
	Incarnation string // random; each ledger has its own, so a replaced one is noticed
	Queue       string // the last name of the hub's queue for this machine; "" if never seen
}

// Link returns the Link of this machine, and whether one was set.
func (l Links) Link(ctx context.Context) (Link, bool, error) {
	return first(sqlite.Select(ctx, l.db, "link", func(v sqlite.Row) Link {
		return Link{v.Text(0), v.Text(1), v.Text(2), v.Text(3), v.Text(4)}
	}, "SELECT name, hub, trust, incarnation, queue FROM link"))
}

// SetLink records, durably, name, hub and trust of this machine. The first call gives the ledger its incarnation. If
// the hub changes, Queue becomes "".
func (l Links) SetLink(ctx context.Context, k Link) error {
	if err := names("name", k.Name); err != nil {
		return err
	}
	return l.exec(ctx, "set link", durable, `INSERT INTO link (only, name, hub, trust, incarnation, queue) VALUES (1, ?, ?, ?, lower(hex(randomblob(16))), '')
		ON CONFLICT DO UPDATE SET name=excluded.name, trust=excluded.trust, queue=iif(hub=excluded.hub, queue, ''), hub=excluded.hub`, k.Name, k.Hub, k.Trust)
}

// SetQueue records, durably, the name of the hub's queue for this machine. If the name has changed, the hub has lost
// the messages that it had stored. SetQueue then queues all stored messages of this machine again, and returns their
// number.
func (l Links) SetQueue(ctx context.Context, queue string) (again int, err error) {
	err = l.write(ctx, "set queue", durable, func(c *sqlite.Conn) error {
		again = 0
		n, err := c.Exec("UPDATE link SET queue=?1 WHERE queue='' AND ?1<>''", queue)
		if err != nil || n > 0 {
			return err
		}
		if n, err = c.Exec("UPDATE link SET queue=? WHERE queue<>?", queue, queue); err != nil || n == 0 {
			return err
		}
		n, err = c.Exec("UPDATE outgoing SET stage='queued', at=? WHERE stage='stored'", micros(time.Time{}))
		again = int(n)
		return err
	})
	return again, err
}

// A Machine is another machine that this one has a link with.
type Machine struct {
	Name        string
	Card        string // its keys, pinned
	Incarnation string // of its ledger, last reported by it; "" if never
	Presence    []byte // last reported by it; empty if never
	Heard       time.Time
	Horizon     time.Time // messages with no later date are refused; zero for none
	Added       time.Time
	Teams       []string // the teams of a Claude root that it may write to, sorted

	Queued, Stored int       // messages not yet at the hub, and at the hub but not confirmed
	Oldest         time.Time // of these messages; zero if there are none
}

// AddMachine records, durably, a link with a machine. A known machine gets another card only with replace; else the
// error is [ErrConflict].
func (l Links) AddMachine(ctx context.Context, name, card string, replace bool) error {
	if err := names("machine", name, "card", card); err != nil {
		return err
	}
	return l.write(ctx, "add machine", durable, func(c *sqlite.Conn) error {
		n, err := c.Exec(`INSERT INTO machines (machine, card, incarnation, presence, heard, horizon, at) VALUES (?, ?, '', x'', 0, 0, ?)
			ON CONFLICT DO UPDATE SET card=excluded.card WHERE card=excluded.card OR ?`, name, card, micros(time.Time{}), replace)
		if err == nil && n == 0 {
			err = fmt.Errorf("ledger: %s is linked with another card: %w", name, ErrConflict)
		}
		return err
	})
}

// RemoveMachine removes, durably, the link with a machine and its shares. Messages that its ledger has not confirmed
// fail with the reason; RemoveMachine returns their number. The error is [ErrUnknown].
func (l Links) RemoveMachine(ctx context.Context, name, reason string) (failed int, err error) {
	err = l.write(ctx, "remove machine", durable, func(c *sqlite.Conn) error {
		n, err := c.Exec("DELETE FROM machines WHERE machine=?", name)
		if err == nil && n == 0 {
			err = fmt.Errorf("ledger: remove machine %s: %w", name, ErrUnknown)
		}
		if err != nil {
			return err
		}
		if _, err := c.Exec("DELETE FROM shares WHERE machine=?", name); err != nil {
			return err
		}
		failed, err = failOutgoing(c, "machine=? AND "+unconfirmed, reason, name)
		return err
	})
	return failed, err
}

// unconfirmed is the condition that the other machine's ledger has not confirmed a message.
const unconfirmed = "stage IN ('queued', 'stored')"

// failOutgoing ends messages to other machines. A message that was given to the hub becomes unknown: it may arrive.
func failOutgoing(c *sqlite.Conn, where, reason string, args ...sqlite.Value) (failed int, err error) {
	at := micros(time.Time{})
	list, err := sqlite.All(c, func(v sqlite.Row) int64 { return v.Int(0) }, "SELECT seq FROM outgoing WHERE "+where, args...)
	for _, seq := range list {
		if err == nil {
			_, err = c.Exec("UPDATE deliveries SET state='failed', reason=iif((SELECT tried FROM outgoing WHERE seq=?1), 'unknown: ', '') || ?2, at=?3 WHERE seq=?1", seq, reason, at)
		}
		if err == nil {
			_, err = c.Exec("UPDATE outgoing SET stage=iif(tried, 'unknown', 'failed'), at=? WHERE seq=?", at, seq)
		}
	}
	return len(list), err
}

// Share allows a machine to write to a team of a Claude root, durably, or no longer. The error is [ErrUnknown] if
// there is no link with it.
func (l Links) Share(ctx context.Context, machine, root, team string, share bool) error {
	if err := names("machine", machine, "root", root, "team", team); err != nil {
		return err
	}
	return l.write(ctx, "share", durable, func(c *sqlite.Conn) error {
		if n, err := c.Number("SELECT count(*) FROM machines WHERE machine=?", machine); err != nil || n == 0 {
			return cmp.Or(err, fmt.Errorf("ledger: share with %s: %w", machine, ErrUnknown))
		}
		query := "DELETE FROM shares WHERE machine=? AND root=? AND team=?"
		if share {
			query = "INSERT INTO shares (machine, root, team) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
		}
		_, err := c.Exec(query, machine, root, team)
		return err
	})
}

// Machines returns the machines that this one has links with, sorted by name, with the teams of a Claude root that
// they may write to.
func (l Links) Machines(ctx context.Context, root string) ([]Machine, error) {
	return sqlite.Select(ctx, l.db, "machines", func(v sqlite.Row) Machine {
		m := Machine{Name: v.Text(0), Card: v.Text(1), Incarnation: v.Text(2), Presence: v.Blob(3), Added: v.Time(6), Queued: int(v.Int(8)), Stored: int(v.Int(9))}
		for i, t := range map[int]*time.Time{4: &m.Heard, 5: &m.Horizon, 10: &m.Oldest} {
			if v.Int(i) != 0 {
				*t = v.Time(i)
			}
		}
		if teams := v.Text(7); teams != "" {
			m.Teams = strings.Split(teams, "\n")
		}
		return m
	}, `SELECT machine, card, incarnation, presence, heard, horizon, at,
		coalesce((SELECT group_concat(team, char(10) ORDER BY team) FROM shares WHERE machine=m.machine AND root=?), ''),
		(SELECT count(*) FROM outgoing WHERE machine=m.machine AND stage='queued'),
		(SELECT count(*) FROM outgoing WHERE machine=m.machine AND stage='stored'),
		min(coalesce((SELECT since FROM outgoing WHERE machine=m.machine AND stage='queued' ORDER BY seq LIMIT 1), 9000000000000000),
			coalesce((SELECT since FROM outgoing WHERE machine=m.machine AND stage='stored' ORDER BY seq LIMIT 1), 9000000000000000)) % 9000000000000000
		FROM machines m ORDER BY machine`, root)
}

// Incarnation returns the last incarnation that a machine reported of its ledger; "" if it never did. The error is
// [ErrNoMachine].
func (l Links) Incarnation(ctx context.Context, machine string) (string, error) {
	incarnation, found, err := first(sqlite.Select(ctx, l.db, "incarnation", func(v sqlite.Row) string { return v.Text(0) }, "SELECT incarnation FROM machines WHERE machine=?", machine))
	if err == nil && !found {
		err = fmt.Errorf("ledger: incarnation of %s: %w", machine, ErrNoMachine)
	}
	return incarnation, err
}

// HeardFrom records a machine's presence and the incarnation of its ledger, if they are given. If the incarnation has
// changed, the machine has lost its ledger, and with it perhaps messages. Unconfirmed messages that were given to the
// hub become unknown, and HeardFrom returns their number. A known incarnation changes only together with a presence,
// since a presence is never old.
func (l Links) HeardFrom(ctx context.Context, machine, incarnation string, presence []byte) (lost int, err error) {
	at := micros(time.Time{})
	err = l.write(ctx, "heard from", quick, func(c *sqlite.Conn) error {
		lost = 0
		if incarnation != "" {
			if _, err := c.Exec("UPDATE machines SET incarnation=? WHERE machine=? AND incarnation=''", incarnation, machine); err != nil {
				return err
			}
		}
		if presence == nil {
			return nil
		}
		if incarnation != "" {
			n, err := c.Exec("UPDATE machines SET incarnation=?2 WHERE machine=?1 AND incarnation<>?2", machine, incarnation)
			if err == nil && n > 0 {
				lost, err = failOutgoing(c, "machine=? AND "+unconfirmed+" AND tried<>0", "the ledger of "+machine+" is another one than before", machine)
			}
			if err != nil {
				return err
			}
		}
		_, err := c.Exec("UPDATE machines SET presence=?, heard=? WHERE machine=?", presence, at, machine)
		return err
	})
	return lost, err
}

package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// A StandIn is an entry in the member list of a team for a member on another machine. Agents can write to it.
type StandIn struct {
	inbox.InboxKey        // of its inbox
	Machine        string // a machine with a link
	There          string // MEMBER@TEAM there
	AgentID        string // of the entry; "" if it may not exist
	JoinedAt       time.Time
	Used           time.Time // when it was last used
}

// SetStandIn records a stand-in, durably, with its use now. The error is [ErrNoMachine] if there is no link with its
// machine.
func (l Links) SetStandIn(ctx context.Context, s StandIn) error {
	if err := checkInbox(s.InboxKey); err != nil {
		return err
	}
	if err := names("machine", s.Machine, "member there", s.There); err != nil {
		return err
	}
	return l.write(ctx, "set stand-in", durable, func(c *sqlite.Conn) error {
		if n, err := c.Number("SELECT count(*) FROM machines WHERE machine=?", s.Machine); err != nil || n == 0 {
			return cmp.Or(err, fmt.Errorf("ledger: stand-in of %s on %s: %w", s.There, s.Machine, ErrNoMachine))
		}
		_, err := c.Exec(`INSERT INTO standins (root, team, created_at, member, machine, there, agent_id, joined_at, used) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET used=excluded.used, agent_id=excluded.agent_id, joined_at=excluded.joined_at WHERE machine=excluded.machine AND there=excluded.there`,
			s.Root, s.Team, s.CreatedAt, s.Inbox, s.Machine, s.There, s.AgentID, micros(s.JoinedAt), micros(time.Time{}))
		return err
	})
}

// MayWrite reports whether a team of a Claude root is shared with a machine, and in which team of that name a member on
// the machine, MEMBER@TEAM there, has a stand-in: the creation time of the last one; 0 if there is none. The member may
// write to such a team. The error is [ErrNoMachine].
func (l Links) MayWrite(ctx context.Context, machine, there, root, team string) (shared bool, standIn int64, err error) {
	type access struct {
		shared  bool
		standIn int64
	}
	may, found, err := first(sqlite.Select(ctx, l.db, "may write", func(v sqlite.Row) access { return access{v.Bool(0), v.Int(1)} },
		`SELECT EXISTS (SELECT 1 FROM shares s WHERE s.machine=m.machine AND root=?2 AND team=?3),
		coalesce((SELECT max(created_at) FROM standins s WHERE s.machine=m.machine AND root=?2 AND team=?3 AND there=?4), 0) FROM machines m WHERE machine=?1`, machine, root, team, there))
	if err == nil && !found {
		err = fmt.Errorf("ledger: what %s may write to: %w", machine, ErrNoMachine)
	}
	return may.shared, may.standIn, err
}

// RemoveStandIn forgets a stand-in, durably.
func (l Links) RemoveStandIn(ctx context.Context, k inbox.InboxKey) error {
	return l.exec(ctx, "remove stand-in", durable, "DELETE FROM standins WHERE root=? AND team=? AND created_at=? AND member=?", inboxArgs(k)...)
}

// StandIns returns the stand-ins of a Claude root, sorted by team and name.
func (l Links) StandIns(ctx context.Context, root string) ([]StandIn, error) {
	return sqlite.Select(ctx, l.db, "stand-ins", func(v sqlite.Row) StandIn {
		return StandIn{scanKey(v, 0), v.Text(4), v.Text(5), v.Text(6), v.Time(7), v.Time(8)}
	}, "SELECT root, team, created_at, member, machine, there, agent_id, joined_at, used FROM standins WHERE root=? ORDER BY team, created_at, member", root)
}

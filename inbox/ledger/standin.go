package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// A StandIn is an entry of a team that stands for a member on another machine, so that agents can
// write to it.
type StandIn struct {
	InboxKey        // of its inbox
	Machine  string // with which there is a link
	There    string // MEMBER@TEAM there
	AgentID  string // of the entry; "": it is not known to be there
	JoinedAt time.Time
	Used     time.Time // when it was used last
}

// SetStandIn records a stand-in, durably, or that it was used now.
func (l *Ledger) SetStandIn(ctx context.Context, s StandIn) error {
	if err := s.InboxKey.check(); err != nil {
		return err
	}
	if err := names("machine", s.Machine, "member there", s.There); err != nil {
		return err
	}
	return l.exec(ctx, "set stand-in", durable, `INSERT INTO standins (root, team, created_at, member, machine, there, agent_id, joined_at, used) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET used=excluded.used, agent_id=excluded.agent_id, joined_at=excluded.joined_at WHERE machine=excluded.machine AND there=excluded.there`,
		s.Root, s.Team, s.CreatedAt, s.Inbox, s.Machine, s.There, s.AgentID, micros(s.JoinedAt), micros(time.Time{}))
}

// RemoveStandIn forgets a stand-in, durably.
func (l *Ledger) RemoveStandIn(ctx context.Context, k InboxKey) error {
	return l.exec(ctx, "remove stand-in", durable, "DELETE FROM standins WHERE root=? AND team=? AND created_at=? AND member=?", k.args()...)
}

// StandIns returns the stand-ins of a Claude root, sorted by team and name.
func (l *Ledger) StandIns(ctx context.Context, root string) ([]StandIn, error) {
	return sqlite.Select(ctx, l.db, "stand-ins", func(v sqlite.Row) StandIn {
		return StandIn{scanKey(v, 0), v.Text(4), v.Text(5), v.Text(6), v.Time(7), v.Time(8)}
	}, "SELECT root, team, created_at, member, machine, there, agent_id, joined_at, used FROM standins WHERE root=? ORDER BY team, created_at, member", root)
}

package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// An OwnedMember is a headless agent that we made a member of an [OwnedTeam]: its entry in
// config.json is ours, and we may remove it.
type OwnedMember struct {
	Root      string // real path of the Claude root
	Team      string
	CreatedAt int64 // of the team, in milliseconds
	Member    string
	AgentID   string    // of the entry in config.json
	JoinedAt  time.Time // of the entry; kept to the microsecond, returned in UTC
	// PendingDelete: the member is to be removed once its agent has ended, see [Relays.Remove].
	PendingDelete bool
}

func (m OwnedMember) check() error {
	return names("root", m.Root, "team", m.Team, "member", m.Member)
}

// AddMember records an agent that we make a member, durably. It replaces the record of the same name in the same team
// instance. It fails with *[ValueError].
func (l Teams) AddMember(ctx context.Context, m OwnedMember) error {
	if err := m.check(); err != nil {
		return err
	}
	return l.exec(ctx, "add member", durable, `INSERT INTO owned_members (root, team, created_at, member, agent_id, joined_at, pending_delete)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET agent_id=excluded.agent_id, joined_at=excluded.joined_at,
		pending_delete=excluded.pending_delete`,
		m.Root, m.Team, m.CreatedAt, m.Member, m.AgentID, m.JoinedAt.UnixMicro(), m.PendingDelete)
}

// RemoveMember forgets an agent that we made a member, durably, unless it is now recorded with another PendingDelete.
// Without a record it does nothing.
func (l Teams) RemoveMember(ctx context.Context, m OwnedMember) error {
	if err := m.check(); err != nil {
		return err
	}
	return l.exec(ctx, "remove member", durable, "DELETE FROM owned_members WHERE root=? AND team=? AND created_at=? AND member=? AND pending_delete=?",
		m.Root, m.Team, m.CreatedAt, m.Member, m.PendingDelete)
}

// Members lists the agents that we made members of teams under a Claude root, of all teams
// or those of one name, sorted by team and name. The teams may have ended.
func (l Teams) Members(ctx context.Context, root, team string) ([]OwnedMember, error) {
	return sqlite.Select(ctx, l.db, "members", func(v sqlite.Row) OwnedMember {
		return OwnedMember{
			Root: v.Text(0), Team: v.Text(1), CreatedAt: v.Int(2), Member: v.Text(3), AgentID: v.Text(4),
			JoinedAt: v.Time(5), PendingDelete: v.Bool(6),
		}
	}, `SELECT root, team, created_at, member, agent_id, joined_at, pending_delete
		FROM owned_members WHERE root=?1 AND (?2='' OR team=?2) ORDER BY team, created_at, member`, root, team)
}

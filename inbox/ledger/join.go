package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// Teams are the teams and members that we made, and our joins. The tables are owned_teams, owned_members and joins.
type Teams struct{ *file }

// A Join is a name under which we joined a team instance. It is a member without an agent, which we may remove.
type Join struct {
	Root      string // real path of the Claude root
	Team      string
	CreatedAt int64 // of the team, in milliseconds
	Member    string
	AgentID   string    // of the entry in config.json
	At        time.Time // joinedAt of the entry; kept to the microsecond, returned in UTC
}

func (j Join) check() error {
	return names("root", j.Root, "team", j.Team, "member", j.Member)
}

// Joined records a join, durably. Joining again replaces agent id and time.
func (l Teams) Joined(ctx context.Context, j Join) error {
	if err := j.check(); err != nil {
		return err
	}
	return l.exec(ctx, "joined", durable, `INSERT INTO joins (root, team, created_at, member, agent_id, at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET agent_id=excluded.agent_id, at=excluded.at`,
		j.Root, j.Team, j.CreatedAt, j.Member, j.AgentID, j.At.UnixMicro())
}

// Left removes the record of a join, durably. It ignores j.AgentID and j.At. Without a record it does nothing.
func (l Teams) Left(ctx context.Context, j Join) error {
	if err := j.check(); err != nil {
		return err
	}
	return l.exec(ctx, "left", durable, "DELETE FROM joins WHERE root=? AND team=? AND created_at=? AND member=?",
		j.Root, j.Team, j.CreatedAt, j.Member)
}

// Joins lists the names under which we joined a team instance, sorted.
func (l Teams) Joins(ctx context.Context, root, team string, createdAt int64) ([]Join, error) {
	return l.joins(ctx, "root=? AND team=? AND created_at=? ORDER BY member", root, team, createdAt)
}

// JoinsUnder lists the names under which we joined teams of a Claude root, sorted by team,
// its creation time and name. Teams that have ended are included.
func (l Teams) JoinsUnder(ctx context.Context, root string) ([]Join, error) {
	return l.joins(ctx, "root=? ORDER BY team, created_at, member", root)
}

func (l Teams) joins(ctx context.Context, rest string, args ...sqlite.Value) ([]Join, error) {
	return sqlite.Select(ctx, l.db, "joins", func(v sqlite.Row) Join {
		return Join{Root: v.Text(0), Team: v.Text(1), CreatedAt: v.Int(2), Member: v.Text(3), AgentID: v.Text(4), At: v.Time(5)}
	}, "SELECT root, team, created_at, member, agent_id, at FROM joins WHERE "+rest, args...)
}

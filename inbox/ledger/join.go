package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// A Join is a name under which we joined a team instance. Such members are no
// agents, and only they may be removed again.
type Join struct {
	Root      string // real path of the Claude root
	Team      string
	CreatedAt int64 // of the team, in milliseconds
	Member    string
	AgentID   string    // of the entry in config.json
	At        time.Time // joinedAt of the entry; kept to the microsecond, given in UTC
}

func (j Join) check() error {
	return names(field{"root", j.Root}, field{"team", j.Team}, field{"member", j.Member})
}

// Joined records a join, durably. Joining again replaces agent id and time.
func (l *Ledger) Joined(ctx context.Context, j Join) error {
	if err := j.check(); err != nil {
		return err
	}
	return l.db.Do(ctx, "joined", func(c *sqlite.Conn) error {
		if err := durable(c); err != nil {
			return err
		}
		_, err := c.Exec(`INSERT INTO joins (root, team, created_at, member, agent_id, at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET agent_id=excluded.agent_id, at=excluded.at`,
			j.Root, j.Team, j.CreatedAt, j.Member, j.AgentID, j.At.UnixMicro())
		return err
	})
}

// Left removes the record of a join, durably; j.AgentID and j.At are not looked at. It is no
// error if there is none.
func (l *Ledger) Left(ctx context.Context, j Join) error {
	if err := j.check(); err != nil {
		return err
	}
	return l.db.Do(ctx, "left", func(c *sqlite.Conn) error {
		if err := durable(c); err != nil {
			return err
		}
		_, err := c.Exec("DELETE FROM joins WHERE root=? AND team=? AND created_at=? AND member=?",
			j.Root, j.Team, j.CreatedAt, j.Member)
		return err
	})
}

// Joins lists the names under which we are in a team instance, in byte order.
func (l *Ledger) Joins(ctx context.Context, root, team string, createdAt int64) ([]Join, error) {
	var list []Join
	err := l.db.Do(ctx, "joins", func(c *sqlite.Conn) error {
		list = nil // f runs again when the file was busy
		return c.Query(func(v []sqlite.Value) error {
			member, _ := v[0].(string)
			agentID, _ := v[1].(string)
			at, _ := v[2].(int64)
			list = append(list, Join{Root: root, Team: team, CreatedAt: createdAt, Member: member, AgentID: agentID, At: time.UnixMicro(at).UTC()})
			return nil
		}, "SELECT member, agent_id, at FROM joins WHERE root=? AND team=? AND created_at=? ORDER BY member", root, team, createdAt)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

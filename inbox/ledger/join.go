package ledger

import (
	"context"
	"database/sql/driver"
	"time"
)

// A Join is a name under which we joined a team instance. Such members are no
// agents, and only they may be removed again.
type Join struct {
	Root      string // real path of the Claude root
	Team      string
	CreatedAt int64 // of the team, in milliseconds
	Member    string
	At        time.Time // kept to the microsecond, given in UTC
}

func (j Join) check() error {
	return names(field{"root", j.Root}, field{"team", j.Team}, field{"member", j.Member})
}

// Joined records a join, durably. Joining again replaces the time.
func (l *Ledger) Joined(ctx context.Context, j Join) error {
	if err := j.check(); err != nil {
		return err
	}
	return l.do(ctx, "joined", func(c *conn) error {
		if err := durable(c); err != nil {
			return err
		}
		_, err := c.exec(`INSERT INTO joins (root, team, created_at, member, at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET at=excluded.at`,
			j.Root, j.Team, j.CreatedAt, j.Member, j.At.UnixMicro())
		return err
	})
}

// Left removes the record of a join, durably; j.At is not looked at. It is no
// error if there is none.
func (l *Ledger) Left(ctx context.Context, j Join) error {
	if err := j.check(); err != nil {
		return err
	}
	return l.do(ctx, "left", func(c *conn) error {
		if err := durable(c); err != nil {
			return err
		}
		_, err := c.exec("DELETE FROM joins WHERE root=? AND team=? AND created_at=? AND member=?",
			j.Root, j.Team, j.CreatedAt, j.Member)
		return err
	})
}

// Joins lists the names under which we are in a team instance, in byte order.
func (l *Ledger) Joins(ctx context.Context, root, team string, createdAt int64) ([]Join, error) {
	var list []Join
	err := l.do(ctx, "joins", func(c *conn) error {
		list = nil // f runs again when the file was busy
		return c.query(func(v []driver.Value) error {
			member, _ := v[0].(string)
			at, _ := v[1].(int64)
			list = append(list, Join{Root: root, Team: team, CreatedAt: createdAt, Member: member, At: time.UnixMicro(at).UTC()})
			return nil
		}, "SELECT member, at FROM joins WHERE root=? AND team=? AND created_at=? ORDER BY member", root, team, createdAt)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

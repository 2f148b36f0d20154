package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"teambridge/inbox/sqlite"
)

// An OwnedTeam is a team that we made for a headless agent, as [teams.OwnedTeam] has
// it: what is needed to know it again after a crash, and to remove it in the end.
type OwnedTeam struct {
	Root      string // real path of the Claude root
	Team      string
	CreatedAt int64  // of the team, in milliseconds
	Lead      string // the name of its lead
	Session   string // the lead's, as it is in the team
	Leaders   []string
	// PendingDelete says that it is to be removed as soon as no agent works in it, see
	// [Ledger.RemoveRelay].
	PendingDelete bool
	At            time.Time // of the last change; kept to the microsecond, given in UTC
}

func (f OwnedTeam) check() error {
	return names(field{"root", f.Root}, field{"team", f.Team}, field{"lead", f.Lead})
}

// AddTeam records a team that is made, or taken back, durably, in place of what was
// recorded of that instance; PendingDelete is false again. At is not looked at. It
// fails with *[ValueError].
func (l *Ledger) AddTeam(ctx context.Context, f OwnedTeam) error {
	if err := f.check(); err != nil {
		return err
	}
	leaders, err := json.Marshal(f.Leaders)
	if err != nil {
		return err
	}
	return l.write(ctx, "add team", durable, func(c *sqlite.Conn) error {
		_, err := c.Exec(`INSERT INTO owned_teams (root, team, created_at, lead, session, leaders, pending_delete, at)
			VALUES (?, ?, ?, ?, ?, ?, 0, ?) ON CONFLICT DO UPDATE SET lead=excluded.lead, session=excluded.session,
			leaders=excluded.leaders, pending_delete=0, at=excluded.at`,
			f.Root, f.Team, f.CreatedAt, f.Lead, f.Session, string(leaders), micros(time.Time{}))
		return err
	})
}

// RemoveTeam forgets a team that we made, durably: it is removed, or somebody else's by
// now. It is no error if there is none.
func (l *Ledger) RemoveTeam(ctx context.Context, f OwnedTeam) error {
	if err := f.check(); err != nil {
		return err
	}
	return l.write(ctx, "remove team", durable, func(c *sqlite.Conn) error {
		_, err := c.Exec("DELETE FROM owned_teams WHERE root=? AND team=? AND created_at=?", f.Root, f.Team, f.CreatedAt)
		return err
	})
}

// Teams lists the teams that we made under a Claude root, the newest first: of
// that name, or all if team is "". They need not be there any more, and one that a
// crash kept from being made never was.
func (l *Ledger) Teams(ctx context.Context, root, team string) ([]OwnedTeam, error) {
	var list []OwnedTeam
	err := l.db.Do(ctx, "teams", func(c *sqlite.Conn) error {
		list = nil // f runs again when the file was busy
		s, err := c.Statement(`SELECT root, team, created_at, lead, session, leaders, pending_delete, at
			FROM owned_teams WHERE root=?1 AND (?2='' OR team=?2) ORDER BY created_at DESC, team`)
		if err != nil {
			return err
		}
		return s.Query(func(v []sqlite.Value) error {
			f := OwnedTeam{
				Root: text(v[0]), Team: text(v[1]), CreatedAt: integer(v[2]), Lead: text(v[3]), Session: text(v[4]),
				PendingDelete: integer(v[6]) != 0, At: moment(v[7]),
			}
			if err := json.Unmarshal([]byte(text(v[5])), &f.Leaders); err != nil {
				return fmt.Errorf("ledger: the team %s that we made: its leaders: %w", f.Team, err)
			}
			f.Leaders = slices.Clip(f.Leaders)
			list = append(list, f)
			return nil
		}, root, team)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

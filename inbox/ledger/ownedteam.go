package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"teambridge/inbox/sqlite"
)

// An OwnedTeam is a team that we made for a headless agent, as in [teams.OwnedTeam]:
// enough to recognize it after a crash and to remove it in the end.
type OwnedTeam struct {
	Root      string // real path of the Claude root
	Team      string
	CreatedAt int64  // of the team, in milliseconds
	Lead      string // the name of its lead
	Session   string // of the lead, as in config.json
	Leaders   []string
	// PendingDelete: the team is to be removed once no agent works in it, see [Relays.Remove].
	PendingDelete bool
	At            time.Time // of the last change; kept to the microsecond, returned in UTC
}

func (t OwnedTeam) check() error {
	return names("root", t.Root, "team", t.Team, "lead", t.Lead)
}

// Add records, durably, a team that we make or keep after all. It replaces the record of the same instance. It
// ignores At. It fails with *[ValueError].
func (l Teams) Add(ctx context.Context, t OwnedTeam) error {
	if err := t.check(); err != nil {
		return err
	}
	leaders, err := json.Marshal(t.Leaders)
	if err != nil {
		return err
	}
	return l.exec(ctx, "add team", durable, `INSERT INTO owned_teams (root, team, created_at, lead, session, leaders, pending_delete, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET lead=excluded.lead, session=excluded.session,
		leaders=excluded.leaders, pending_delete=excluded.pending_delete, at=excluded.at`,
		t.Root, t.Team, t.CreatedAt, t.Lead, t.Session, string(leaders), t.PendingDelete, micros(time.Time{}))
}

// Remove forgets a team that we made, durably, because it is removed or no longer ours. If t has PendingDelete, and
// the record has not, the team is kept after all, and its record stays. Without a record Remove does nothing.
func (l Teams) Remove(ctx context.Context, t OwnedTeam) error {
	if err := t.check(); err != nil {
		return err
	}
	return l.exec(ctx, "remove team", durable, "DELETE FROM owned_teams WHERE root=? AND team=? AND created_at=? AND pending_delete>=?", t.Root, t.Team, t.CreatedAt, t.PendingDelete)
}

// List returns the teams that we made under a Claude root, newest first, all or those of one
// name. They may have ended or, after a crash, never have existed.
func (l Teams) List(ctx context.Context, root, team string) ([]OwnedTeam, error) {
	var invalid error
	list, err := sqlite.Select(ctx, l.db, "teams", func(v sqlite.Row) OwnedTeam {
		t := OwnedTeam{
			Root: v.Text(0), Team: v.Text(1), CreatedAt: v.Int(2), Lead: v.Text(3), Session: v.Text(4),
			PendingDelete: v.Bool(6), At: v.Time(7),
		}
		if err := json.Unmarshal([]byte(v.Text(5)), &t.Leaders); err != nil {
			invalid = fmt.Errorf("ledger: the team %s that we made: its leaders: %w", t.Team, err)
		}
		t.Leaders = slices.Clip(t.Leaders)
		return t
	}, `SELECT root, team, created_at, lead, session, leaders, pending_delete, at
		FROM owned_teams WHERE root=?1 AND (?2='' OR team=?2) ORDER BY created_at DESC, team`, root, team)
	return list, cmp.Or(err, invalid)
}

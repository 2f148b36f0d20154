package mail

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Memberships returns the names under which a team was joined, according to the ledger,
// even if they are no longer in config.json.
func Memberships(ctx context.Context, l *ledger.Ledger, t *teams.Team, c *teams.Config) ([]teams.Membership, error) {
	instance := c.Instance()
	joins, err := l.Teams.Joins(ctx, t.Root().Path(), instance.Team, instance.CreatedAt)
	if err != nil {
		return nil, err
	}
	ours := make([]teams.Membership, 0, len(joins))
	for _, j := range joins {
		ours = append(ours, teams.Membership{Name: j.Member, AgentID: j.AgentID, JoinedAt: j.At})
	}
	return ours, nil
}

// Guest returns the name under which a team was joined and which is still in config.json, and no agent's, or "".
func Guest(ctx context.Context, l *ledger.Ledger, t *teams.Team, c *teams.Config) (string, error) {
	if !slices.ContainsFunc(c.Members, teams.Member.Guest) {
		return "", nil
	}
	ours, err := Memberships(ctx, l, t, c)
	if err != nil {
		return "", err
	}
	for _, o := range ours {
		if m, ok := c.Member(o.Name); ok && m.Guest() {
			return o.Name, nil
		}
	}
	return "", nil
}

// Ours returns the names of the person's own inboxes: "user", and those under which the
// team was joined, unless an agent has the name now. Rows may be marked as read only there: agents never get marked
// rows.
func Ours(ctx context.Context, l *ledger.Ledger, t *teams.Team, c *teams.Config) ([]string, error) {
	ours, err := OursIn(ctx, l, t.Root().Path(), c.Instance())
	return slices.DeleteFunc(ours, func(name string) bool {
		m, ok := c.Member(name)
		return ok && !m.Guest()
	}), err
}

// OursIn is [Ours] for a team that may have ended. root is the path of the Claude root.
func OursIn(ctx context.Context, l *ledger.Ledger, root string, team teams.Instance) ([]string, error) {
	joins, err := l.Teams.Joins(ctx, root, team.Team, team.CreatedAt)
	if err != nil {
		return nil, err
	}
	ours := []string{User}
	for _, j := range joins {
		ours = append(ours, j.Member)
	}
	return ours, nil
}

// aloneWithin is how long [Alone] waits for another process.
const aloneWithin = 5 * time.Second

// Alone prevents other processes of teambridge from joining and leaving teams, which changes config.json and the
// ledger, until release is called. state is the state directory. The error is [lockedfile.ErrLocked] after 5 s.
func Alone(ctx context.Context, state string) (release func() error, err error) {
	return lockedfile.HoldWithin(ctx, aloneWithin, filepath.Join(state, "locks"), "joining and leaving")
}

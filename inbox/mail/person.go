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

// Memberships returns under which names a team was joined from here, as the
// ledger has it: also names that stand in config.json no more.
func Memberships(ctx context.Context, l *ledger.Ledger, t *teams.Team, c *teams.Config) ([]teams.Membership, error) {
	instance := c.Instance()
	joins, err := l.Joins(ctx, t.Root().Path(), instance.Team, instance.CreatedAt)
	if err != nil {
		return nil, err
	}
	ours := make([]teams.Membership, 0, len(joins))
	for _, j := range joins {
		ours = append(ours, teams.Membership{Name: j.Member, AgentID: j.AgentID, JoinedAt: j.At})
	}
	return ours, nil
}

// Guest returns the name under which a team was joined from here and in which it
// still is, or "".
func Guest(ctx context.Context, l *ledger.Ledger, t *teams.Team, c *teams.Config) (string, error) {
	if !slices.ContainsFunc(c.Members, teams.Member.Guest) {
		return "", nil
	}
	ours, err := Memberships(ctx, l, t, c)
	if err != nil {
		return "", err
	}
	for _, m := range ours {
		if _, ok := c.Member(m.Name); ok {
			return m.Name, nil
		}
	}
	return "", nil
}

// Ours returns the names whose inboxes are the person's: "user", and those the
// team was joined under. Only there may rows be marked as read; an agent never
// gets what was read for it.
func Ours(ctx context.Context, l *ledger.Ledger, t *teams.Team, c *teams.Config) ([]string, error) {
	joined, err := Memberships(ctx, l, t, c)
	if err != nil {
		return nil, err
	}
	ours := []string{User}
	for _, m := range joined {
		ours = append(ours, m.Name)
	}
	return ours, nil
}

// aloneWithin is how long [Alone] waits for another process.
const aloneWithin = 5 * time.Second

// Alone keeps other processes of ours from joining and leaving teams until
// release: both change config.json and the record of it in the ledger, and whoever
// comes between the two would take the one for wrong. state is our state directory.
// [lockedfile.ErrLocked] after 5 s.
func Alone(ctx context.Context, state string) (release func() error, err error) {
	return lockedfile.HoldWithin(ctx, aloneWithin, filepath.Join(state, "locks"), "joining and leaving")
}

package service

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/status/signals"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// rejoiner adds the person's entry to config.json again if it has vanished although the person did not leave: a
// program may have overwritten the file with an older state. Without the entry, no agent can write to the person.
type rejoiner struct {
	*shared
	dirty chan struct{}           // signals that a config.json or the ledger may have changed
	seen  map[joinKey]os.FileInfo // the config.json files that were checked and need no change
}

type joinKey struct {
	team      string
	createdAt int64
	member    string
}

func (j *rejoiner) run(ctx context.Context) error {
	signals.Send(j.dirty)
	unsure := false // try again soon; otherwise, a change of a config.json or of the ledger signals
	return signals.LoopWhile(ctx, nil, j.dirty, j.opts.Tick, func() bool { return unsure }, func() {
		joins, err := j.ledger.Teams.JoinsUnder(ctx, j.opts.Root.Path())
		unsure = err != nil
		if err != nil && ctx.Err() == nil {
			j.log.Warn("the joined teams cannot be read", "err", view.Describe(err))
		}
		for _, join := range joins {
			if !j.check(ctx, join) {
				unsure = true
			}
		}
	})
}

// check joins again if the entry is missing. It does nothing if config.json is unchanged since the last check. It reports
// whether it needs no other check until a change.
func (j *rejoiner) check(ctx context.Context, join ledger.Join) bool {
	key := joinKey{join.Team, join.CreatedAt, join.Member}
	// Stat before reading, so that a later change is noticed.
	info, err := os.Stat(filepath.Join(j.opts.Root.Path(), "teams", join.Team, "config.json"))
	if err != nil {
		delete(j.seen, key)
		return errors.Is(err, fs.ErrNotExist) // the team has been deleted
	}
	if before := j.seen[key]; before != nil && lockedfile.SameFile(before, info) {
		return true
	}
	again, err := j.join(ctx, join)
	switch {
	case ctx.Err() != nil, errors.Is(err, lockedfile.ErrLocked):
		return false
	case err != nil && !errors.Is(err, teams.ErrTeamGone):
		j.log.Warn("a team cannot be joined again", "team", join.Team, "as", join.Member, "err", view.Describe(err))
	case again:
		j.log.Info("joined again: the entry had vanished from config.json", "team", join.Team, "as", join.Member)
		return false // we have just written the file
	}
	j.seen[key] = info
	return true
}

// join joins again if the entry is missing and the person has not left the team.
func (j *rejoiner) join(ctx context.Context, join ledger.Join) (again bool, err error) {
	t, err := j.opts.Root.Team(join.Team)
	if err != nil {
		return false, err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil {
		return false, err
	}
	if _, there := c.Member(join.Member); there || c.Instance().CreatedAt != join.CreatedAt {
		return false, nil
	}
	// The person cannot leave while the lock is held: leaving removes the entry first, and then the
	// record of the join.
	release, err := mail.Alone(ctx, j.opts.State)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, release()) }()
	ours, err := mail.Memberships(ctx, j.ledger, t, c)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(ours, func(m teams.Membership) bool { return m.Name == join.Member }) {
		return false, nil // the person has left
	}
	lead, _ := c.Lead()
	m, err := t.Join(ctx, j.locker, join.Member, lead.Cwd)
	if err != nil {
		return false, err
	}
	join.AgentID, join.At = m.AgentID, m.JoinedAt
	return true, j.ledger.Teams.Joined(ctx, join)
}

package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// rejoiner joins a team again where the person had joined it, has not left it, and
// the entry vanished: who writes config.json from what it knows of before takes
// away what came since, and then no agent can write to the person.
type rejoiner struct {
	root   *teams.Root
	state  string
	ledger *ledger.Ledger
	locker *lockedfile.Locker
	limits limits
	log    *slog.Logger
	dirty  chan struct{}
	seen   map[joined]os.FileInfo // config.json, when there was nothing to do
}

// joined tells one join from another.
type joined struct {
	team      string
	createdAt int64
	member    string
}

func newRejoiner(root *teams.Root, state string, l *ledger.Ledger, locker *lockedfile.Locker, limits limits, log *slog.Logger) *rejoiner {
	return &rejoiner{
		root: root, state: state, ledger: l, locker: locker, limits: limits, log: log,
		dirty: make(chan struct{}, 1), seen: map[joined]os.FileInfo{},
	}
}

// look is told that a config.json may have changed.
func (j *rejoiner) look() { signal(j.dirty) }

func (j *rejoiner) run(ctx context.Context) error {
	tick := time.NewTicker(j.limits.tick)
	defer tick.Stop()
	for {
		joins, err := j.ledger.JoinsUnder(ctx, j.root.Path())
		if err != nil && ctx.Err() == nil {
			j.log.Warn("which teams were joined is not known", "err", view.Describe(err))
		}
		for _, join := range joins {
			j.check(ctx, join)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-j.dirty:
		case <-tick.C:
		}
	}
}

// check looks at one join, if config.json was written since it was looked at.
func (j *rejoiner) check(ctx context.Context, join ledger.Join) {
	key := joined{join.Team, join.CreatedAt, join.Member}
	// Before it is read: what changes meanwhile is looked at again.
	info, err := os.Stat(filepath.Join(j.root.Path(), "teams", join.Team, "config.json"))
	if err != nil {
		delete(j.seen, key)
		return
	}
	if was := j.seen[key]; was != nil && unchanged(was, info) {
		return
	}
	again, err := j.join(ctx, join)
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, lockedfile.ErrLocked):
		return // tried again soon
	case err != nil && !errors.Is(err, teams.ErrTeamGone):
		j.log.Warn("a team cannot be joined again", "team", join.Team, "as", join.Member, "err", view.Describe(err))
	case again:
		j.log.Info("joined again: the entry had vanished from config.json", "team", join.Team, "as", join.Member)
		return // it was written, by us
	}
	j.seen[key] = info
}

// join joins again, if the entry is not there and the team was not left.
func (j *rejoiner) join(ctx context.Context, join ledger.Join) (again bool, err error) {
	t, err := j.root.Team(join.Team)
	if err != nil {
		return false, err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil || !missing(c, join) {
		return false, err
	}
	// Nobody leaves meanwhile: who leaves takes the entry away first, and then the
	// record of having joined.
	release, err := mail.Alone(ctx, j.state)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, release()) }()
	ours, err := mail.Memberships(ctx, j.ledger, t, c)
	if err != nil {
		return false, err
	}
	for _, m := range ours {
		if m.Name != join.Member {
			continue
		}
		lead, _ := c.Lead()
		m, err := t.Join(ctx, j.locker, join.Member, lead.Cwd)
		if err != nil {
			return false, err
		}
		join.AgentID, join.At = m.AgentID, m.JoinedAt
		return true, j.ledger.Joined(ctx, join)
	}
	return false, nil // it was left
}

// missing reports whether a team is the one that was joined, and has no such member.
func missing(c *teams.Config, join ledger.Join) bool {
	_, there := c.Member(join.Member)
	return !there && c.Instance().CreatedAt == join.CreatedAt
}

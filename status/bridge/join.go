package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/teams"
)

var _ api.Bridge = (*Local)(nil)

// real opens a team with inboxes, and its config.json. The caller closes the team.
func (l *Targets) real(ctx context.Context, team string) (t *teams.Team, c *teams.Config, err error) {
	to, err := l.withInboxes(ctx, api.Decide(api.CodeInvalid, "it is for teams of Claude Code", "%s is the team of the panes, which has no inboxes", team), team)
	if err != nil {
		return nil, nil, err
	}
	if c, err = to.Team.Config(ctx); err != nil {
		return nil, nil, errors.Join(err, to.Close())
	}
	return to.Team, c, nil
}

// Join joins a team; see [api.Bridge].
func (l *Local) Join(ctx context.Context, team string, n api.NewJoin) (joined api.Membership, err error) {
	t, c, err := l.real(ctx, team)
	if err != nil {
		return joined, err
	}
	defer t.Close() // writes go by path
	if n.Remote != "" {
		return l.JoinFor(ctx, t, n)
	}
	joined = api.Membership{Team: t.Name(), Member: cmp.Or(n.As, api.Guest)}
	if n.Dir == "" {
		lead, _ := c.Lead()
		n.Dir = lead.Cwd
	}
	// Later, only the ledger distinguishes our entry from an agent's.
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return joined, fmt.Errorf("join %s: nothing was written: %w", t.Name(), err)
	}
	release, err := mail.Alone(ctx, l.Opts.State)
	if err != nil {
		return joined, err
	}
	defer func() { err = errors.Join(err, release()) }()
	m, err := t.Join(ctx, l.Opts.Locker, joined.Member, n.Dir)
	if err != nil {
		return joined, err
	}
	err = lg.Teams.Joined(ctx, joinRecord(t, c, m))
	if err != nil && m.Added {
		// Without a record, the entry could never be removed.
		_, lerr := t.Leave(ctx, l.Opts.Locker, m)
		err = errors.Join(fmt.Errorf("join %s: taken back, because it was not recorded: %w", t.Name(), err), lerr)
	}
	return joined, err
}

// Leave leaves a team; see [api.Bridge].
func (l *Local) Leave(ctx context.Context, team, as string) (left []api.Membership, err error) {
	t, c, err := l.real(ctx, team)
	if err != nil {
		return nil, err
	}
	defer t.Close() // writes go by path
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	release, err := mail.Alone(ctx, l.Opts.State)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	ours, err := mail.Memberships(ctx, lg, t, c)
	if err != nil {
		return nil, err
	}
	name := as // as, possibly spelled in another case
	if as != "" {
		name = t.Root().MemberName(ctx, t.Name(), as)
	}
	for _, m := range ours {
		if as != "" && m.Name != as && m.Name != name {
			continue
		}
		if _, err := t.Leave(ctx, l.Opts.Locker, m); err != nil {
			return left, err
		}
		if err := lg.Teams.Left(ctx, joinRecord(t, c, m)); err != nil {
			return left, err
		}
		left = append(left, api.Membership{Team: t.Name(), Member: m.Name})
	}
	switch {
	case len(left) == 0 && as != "":
		err = api.Decide(api.CodeNotFound, "omit the name to leave under every name", "you have not joined %s as %q", t.Name(), as)
	case len(left) == 0:
		err = api.Decide(api.CodeNotFound, "join it with: teambridge join", "you have not joined %s", t.Name())
	}
	return left, err
}

// joinRecord returns the ledger's record of a membership.
func joinRecord(t *teams.Team, c *teams.Config, m teams.Membership) ledger.Join {
	instance := c.Instance()
	return ledger.Join{
		Root: t.Root().Path(), Team: instance.Team, CreatedAt: instance.CreatedAt,
		Member: m.Name, AgentID: m.AgentID, At: m.JoinedAt,
	}
}

// MarkRead marks messages in an inbox of the person as read; see [api.Bridge].
func (l *Local) MarkRead(ctx context.Context, team string, m api.MarkRead) (done api.Marked, err error) {
	if len(m.IDs) == 0 {
		return done, api.Decide(api.CodeInvalid, "", "there are no ids to mark as read")
	}
	to, w, err := l.at(ctx, team, mail.User)
	if err != nil {
		return done, err
	}
	defer to.Close() // writes go by path
	return w.markRead(ctx, &to, m)
}

func (l inboxWay) markRead(ctx context.Context, to *Target, m api.MarkRead) (done api.Marked, err error) {
	t := to.Team
	c, err := t.Config(ctx)
	if err != nil {
		return done, err
	}
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return done, err
	}
	ours, err := mail.Ours(ctx, lg, t, c)
	if err != nil {
		return done, err
	}
	done.Inbox = cmp.Or(m.Inbox, mail.User)
	if !slices.Contains(ours, done.Inbox) {
		return done, api.Decide(api.CodeRefused, "only your own messages can be marked as read", "%s would never get messages that somebody else marked as read", done.Inbox)
	}
	box, err := inbox.Open(t, done.Inbox, l.Opts.Locker)
	if err != nil {
		return done, err
	}
	if done.Marked, err = box.MarkRead(ctx, m.IDs...); err != nil {
		err = fmt.Errorf("mark as read: %w", err)
	}
	return done, err
}

package bridge

import (
	"context"
	"slices"
	"time"

	"teambridge/inbox/mail"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// Teams returns all teams, sorted by name, with that of the registered panes.
func (l *Local) Teams(ctx context.Context) ([]api.Team, error) {
	root, err := l.opts.Root()
	if err != nil {
		return nil, err
	}
	list, err := view.Teams(ctx, root)
	if err != nil {
		return nil, err
	}
	panes, err := l.Registered(ctx)
	if len(panes) > 0 && !slices.ContainsFunc(list, func(t api.Team) bool { return t.Team == pane.Team }) {
		list = view.WithPanes(list, view.PaneTeam(panes))
	}
	return list, err
}

// Members returns the members of a team, then the inboxes without a member; see [api.Bridge].
func (l *Local) Members(ctx context.Context, team string) ([]api.Member, error) {
	to, err := l.In(ctx, team)
	if err != nil {
		return nil, err
	}
	defer to.Close() // nothing was written through it
	if to.Way() == api.WayPane {
		views, err := l.Look(ctx, to.Panes)
		return view.PaneMembers(views), err
	}
	list, err := view.Members(ctx, to.Team)
	if err != nil {
		return nil, err
	}
	relays, err := l.relays(ctx, to.Team)
	for i, m := range list {
		if r := relays[m.Member]; r != nil {
			list[i].Relay, list[i].Place = r.State, r.Place
		}
	}
	return list, err
}

// relays returns the relays of a team's members, by member.
func (l *Local) relays(ctx context.Context, t *teams.Team) (map[string]*api.Relay, error) {
	if l.opts.Service != nil {
		relays, _, err := l.opts.Relays(ctx, t)
		return relays, err
	}
	lg, err := l.Ledger(ctx)
	if err != nil || lg == nil {
		return nil, err
	}
	return view.Relays(ctx, lg, l.opts.State, t)
}

// Team returns a team, and the names of the person in it.
func (l *Local) Team(ctx context.Context, team string) (d api.TeamDetail, err error) {
	to, err := l.In(ctx, team)
	if err != nil {
		return d, err
	}
	defer to.Close() // nothing was written through it
	lg, err := l.opts.Ledger(ctx)
	if err != nil {
		return d, err
	}
	if to.Way() == api.WayPane {
		ours, err := mail.OursIn(ctx, lg, to.Panes[0].Root, teams.Instance{Team: pane.Team, CreatedAt: to.Panes[0].CreatedAt})
		return api.TeamDetail{Team: view.PaneTeam(to.Panes), Ours: ours, From: mail.User}, err
	}
	r, err := l.row(ctx, &to, "", false, false)
	if err != nil {
		return d, err
	}
	ours, err := mail.Ours(ctx, lg, to.Team, r.sender.Config())
	return api.TeamDetail{
		Team: view.Team(to.Team, r.sender.Config(), time.Now()), Ours: ours, From: r.sender.From(), Answerable: r.sender.AllAnswerable(),
	}, err
}

package bridge

import (
	"context"
	"maps"
	"slices"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/link"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/local"
	"teambridge/status/view"
)

// Teams returns all teams, sorted by name, including the team of the registered panes, the team of the sessions
// in no team, and the teams on other machines.
func (l *Local) Teams(ctx context.Context) ([]api.Team, error) {
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	list, err := view.Teams(ctx, root)
	if err != nil {
		return nil, err
	}
	panes, err := l.Registered(ctx)
	if err != nil {
		return list, err
	}
	sessions, err := l.FindSessions(ctx, nil)
	for _, more := range [][]pane.Pane{panes, sessions} {
		if len(more) > 0 && !slices.ContainsFunc(list, func(t api.Team) bool { return t.Team == more[0].Team }) {
			list = view.WithPanes(list, view.PaneTeam(more))
		}
	}
	if err != nil {
		return list, err
	}
	machines, err := l.Linked(ctx)
	for _, m := range machines {
		p, _ := link.PresenceOf(m)
		for _, t := range p.Teams {
			list = view.WithPanes(list, view.MachineTeam(m, t))
		}
	}
	if err != nil {
		return list, err
	}
	return l.withUnread(ctx, list)
}

// withUnread adds the teams on other machines that are no longer offered, but have unread messages to the person.
func (l *Local) withUnread(ctx context.Context, list []api.Team) ([]api.Team, error) {
	if lg, err := l.Ledger(ctx); err != nil || lg == nil {
		return list, err
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return list, err
	}
	unread, err := panes.Incoming.Unread(ctx)
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		team, machine, ok := local.Elsewhere(name)
		if ok && !slices.ContainsFunc(list, func(t api.Team) bool { return t.Team == name }) {
			list = view.WithPanes(list, view.MachineTeam(ledger.Machine{Name: machine}, link.Team{Team: team}))
		}
	}
	return list, err
}

// Members returns the members of a team, and then the inboxes without a member; see [api.Bridge].
func (l *Local) Members(ctx context.Context, team string) ([]api.Member, error) {
	to, w, err := l.at(ctx, team)
	if err != nil {
		return nil, err
	}
	defer to.Close() // it was only read
	return w.members(ctx, &to)
}

func (l inboxWay) members(ctx context.Context, to *Target) ([]api.Member, error) {
	list, err := view.Members(ctx, to.Team)
	if err != nil {
		return nil, err
	}
	var relays map[string]*api.Relay
	states, err := l.RelayCache(ctx)
	if err == nil {
		relays, _, err = states.RelaysOf(ctx, to.Team)
	}
	for i, m := range list {
		if r := relays[m.Member]; r != nil {
			list[i].Relay, list[i].Place = r.State, r.Place
		}
	}
	return list, err
}

// Team returns a team, and the names of the person in it.
func (l *Local) Team(ctx context.Context, team string) (d api.TeamDetail, err error) {
	to, w, err := l.at(ctx, team)
	if err != nil {
		return d, err
	}
	defer to.Close() // it was only read
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return d, err
	}
	return w.detail(ctx, &to, lg)
}

func (l inboxWay) detail(ctx context.Context, to *Target, lg *ledger.Ledger) (d api.TeamDetail, err error) {
	r, err := l.row(ctx, to, "", false, false)
	if err != nil {
		return d, err
	}
	ours, err := mail.Ours(ctx, lg, to.Team, r.sender.Config())
	return api.TeamDetail{
		Team: view.Team(to.Team, r.sender.Config(), time.Now()), Ours: ours, From: r.sender.From(), Answerable: r.sender.AllAnswerable(),
	}, err
}

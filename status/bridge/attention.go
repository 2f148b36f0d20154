package bridge

import (
	"context"
	"fmt"
	"slices"

	"teambridge/status/api"
	"teambridge/status/view"
)

// Status returns the present state of each agent of a team; see [api.Bridge].
func (l *Local) Status(ctx context.Context, team string, members ...string) ([]api.Status, error) {
	to, w, err := l.at(ctx, team, members...)
	if err != nil {
		return nil, err
	}
	defer to.Close() // it was only read
	list, err := w.status(ctx, &to)
	if err != nil {
		return nil, err
	}
	lg, _ := l.Ledger(ctx) // most states need no ledger
	c, err := l.Cache(ctx, lg, to.Name())
	if err == nil {
		err = c.Place(ctx, to.Name(), list)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil { // what they do is known
		for i := range list {
			if list[i].Team != api.TeamSessions {
				view.Reached(&list[i], "")
			}
		}
		l.Opts.Warn(fmt.Errorf("%w; what agents were told, and what waits because of them, is not shown", err))
	}
	return list, nil
}

func (l inboxWay) status(ctx context.Context, to *Target) ([]api.Status, error) {
	all, err := l.StatusOf(ctx, to.Team)
	if err != nil || len(to.Members) == 0 {
		return all, err
	}
	var some []api.Status
	for _, name := range to.Members {
		i := slices.IndexFunc(all, func(s api.Status) bool { return s.Member == name }) // a member may have left
		if i < 0 {
			if name, err = to.Team.Resolve(ctx, name); err != nil {
				return nil, l.alike(ctx, err, "")
			}
			i = slices.IndexFunc(all, func(s api.Status) bool { return s.Member == name })
		}
		if i < 0 {
			return nil, api.Decide(api.CodeNotFound, "list the members with: teambridge members", "%s is not an agent of %s", name, to.Name())
		}
		some = append(some, all[i])
	}
	return some, nil
}

// withoutLedger returns the teams and states that are known without a ledger. No item waits.
func (l *Local) withoutLedger(ctx context.Context, team string) (api.Snapshot, error) {
	shot := api.Snapshot{Teams: []api.Team{}, Status: []api.Status{}, Attention: []api.Attention{}}
	all, err := l.Teams(ctx)
	for _, t := range all {
		if team != "" && t.Team != team {
			continue
		}
		shot.Teams = append(shot.Teams, t)
		if states, err := l.Status(ctx, t.Team); err == nil { // otherwise the team has a problem, or has ended
			shot.Status = append(shot.Status, states...)
		}
	}
	if all != nil {
		err = nil
	}
	return shot, err
}

package main

import (
	"context"
	"time"

	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// registered returns the panes with these names, which may have @tmux behind them; all if
// there are no names. It is an error if there are none.
func (a *app) registered(ctx context.Context, names []string) ([]pane.Pane, error) {
	members := make([]string, len(names))
	for i, name := range names {
		members[i], _ = teams.Split(name)
	}
	to, err := a.local().In(ctx, pane.Team, members...)
	return to.Panes, err
}

// paneStatuses returns what the agents in panes do: in those with these names, or in all.
func (a *app) paneStatuses(ctx context.Context, names []string) ([]api.Status, error) {
	list, err := a.registered(ctx, names)
	if err != nil {
		return nil, err
	}
	views, err := a.local().Look(ctx, list)
	if err != nil {
		return nil, err
	}
	all := make([]api.Status, len(views))
	for i, v := range views {
		all[i] = view.PaneStatus(v)
	}
	return all, nil
}

// statusOfPanes prints what the agents in panes do and, with watch, each change.
func (a *app) statusOfPanes(ctx context.Context, names []string, watch, wide bool) error {
	infos, err := a.paneStatuses(ctx, names)
	if err != nil {
		return err
	}
	if err := a.printStatus(infos, watch, wide); err != nil || !watch {
		return err
	}
	ctx, stop := a.whileRead(ctx)
	defer stop()
	for {
		if err := sleep(ctx, recheck); err != nil {
			return err
		}
		now, err := a.paneStatuses(ctx, names)
		if err != nil {
			return err
		}
		if err := a.printStatus(changedStatuses(infos, now), true, wide); err != nil {
			return err
		}
		infos = now
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// paneInstance is the team of the registered panes as the journal knows it.
func paneInstance(list []pane.Pane) teams.Instance {
	if len(list) == 0 {
		return teams.Instance{Team: pane.Team}
	}
	return teams.Instance{Team: pane.Team, CreatedAt: list[0].CreatedAt}
}

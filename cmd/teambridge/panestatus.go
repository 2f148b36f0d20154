package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/journal"
	"teambridge/relay/pane"
	"teambridge/relay/shell"
	"teambridge/status/api"
	"teambridge/status/bridge"
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
	return a.local().StatusOf(ctx, &bridge.Target{Panes: list})
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

// waitForPanes waits until something happens in the panes with these names, or in any.
func (a *app) waitForPanes(ctx context.Context, o waitOptions) error {
	var names []string
	if o.member != "" {
		names = []string{o.member}
	}
	list, err := a.registered(ctx, names)
	if err != nil {
		return err
	}
	panes, err := a.local().OpenPanes(ctx)
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(o.member, "@"+pane.Team)
	ctx, cancel := within(ctx, o.timeout, o.missing(name))
	defer cancel()
	defer a.working("waiting for %s", o.awaited(name))()
	if o.what == forReply || o.what == forMessage {
		return a.waitPaneMessage(ctx, panes, list, o)
	}
	for {
		holds, err := panesAre(ctx, panes, list, o.what)
		if err != nil {
			return ended(ctx, err)
		}
		if holds {
			break
		}
		if err := sleep(ctx, settled/5); err != nil {
			return err
		}
	}
	infos, err := a.paneStatuses(ctx, names)
	if err != nil {
		return ended(ctx, err)
	}
	return a.printStatus(infos, false, false)
}

// panesAre reports whether the agents in all panes are idle, or have ended. One that has
// ended counts as idle among several.
func panesAre(ctx context.Context, panes *pane.Panes, list []pane.Pane, what string) (bool, error) {
	for _, p := range list {
		err := bridge.Closed(ctx, p)
		over := errors.Is(err, api.CodeGone) || errors.Is(err, api.CodeRefused)
		switch {
		case err != nil && !over:
			return false, err
		case what == forTerminated && !over:
			return false, nil
		case what == forIdle && over:
			return false, notFound("see what is there with: teambridge pane test "+shell.Quote(p.Inbox), "%s will not become idle: %s", p.Inbox, strings.TrimPrefix(err.Error(), p.Name()+"@"+p.Team+": "))
		case over:
			continue
		}
		if busy, err := panes.Busy(ctx, p); err != nil || busy != "" {
			return false, err
		}
	}
	return true, nil
}

// waitPaneMessage waits until an agent in one of the panes has answered or, for any message,
// is sent one.
func (a *app) waitPaneMessage(ctx context.Context, panes *pane.Panes, list []pane.Pane, o waitOptions) (err error) {
	root, err := a.root()
	if err != nil {
		return err
	}
	rec, err := a.startRecorder(ctx, pane.Team)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	for {
		// Nobody else may follow the tasks of the panes.
		for _, p := range list {
			if _, err := panes.Busy(ctx, p); err != nil {
				return ended(ctx, err)
			}
		}
		changes, err := rec.Changes(ctx, settled/5)
		if err != nil {
			return ended(ctx, err)
		}
		for _, c := range changes {
			m := c.Message
			if c.Kind != journal.Appeared || m.Team.Team != pane.Team || m.Root != root.Path() {
				continue
			}
			wanted := m.Answer != "" || o.what == forMessage && o.member == ""
			if wanted && slices.ContainsFunc(list, func(p pane.Pane) bool { return p.Inbox == m.Inbox || p.Inbox == m.From }) {
				return a.printRecorded(m)
			}
		}
	}
}

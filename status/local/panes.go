package local

import (
	"context"
	"errors"
	"slices"
	"strings"

	"teambridge/relay/pane"
	"teambridge/relay/tmux"
	"teambridge/status/api"
	"teambridge/status/view"
)

// Panes returns the registered panes; see [api.Bridge].
func (l *Files) Panes(ctx context.Context) ([]api.Pane, error) {
	list, err := l.Registered(ctx)
	if err != nil {
		return nil, err
	}
	views, err := l.Look(ctx, list)
	shown := make([]api.Pane, 0, len(views))
	for _, v := range views {
		shown = append(shown, view.Pane(v))
	}
	return shown, err
}

// registered returns the pane with a name, NAME or NAME@tmux.
func (l *Files) registered(ctx context.Context, name string) (*pane.Panes, pane.Pane, error) {
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return nil, pane.Pane{}, err
	}
	p, err := panes.Registry.Find(ctx, strings.TrimSuffix(name, "@"+pane.Team))
	return panes, p, err
}

// Pane looks at a pane now; see [api.Bridge].
func (l *Files) Pane(ctx context.Context, name string) (api.Pane, error) {
	panes, p, err := l.registered(ctx, name)
	if err != nil {
		return api.Pane{}, err
	}
	v, err := panes.Views.Look(ctx, p)
	return view.Pane(v), err
}

// TestPane returns the present result of sending a message to a pane, without sending; see [api.Bridge].
func (l *Files) TestPane(ctx context.Context, name, policy string) (api.PaneTest, error) {
	panes, p, err := l.registered(ctx, name)
	if err != nil {
		return api.PaneTest{}, err
	}
	return tested(ctx, panes, p, policy)
}

// TestUnregistered is [Files.TestPane] for a pane that is not necessarily registered. Its name is its target.
func (l *Files) TestUnregistered(ctx context.Context, n api.NewPane, policy string) (t api.PaneTest, err error) {
	seen, err := tmux.Resolve(ctx, n.Socket, n.Target)
	if err != nil {
		return t, err
	}
	root, err := l.Opts.Root()
	if err != nil {
		return t, err
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return t, err
	}
	p := pane.Pane{Ref: seen.Ref, Profile: tmux.Profile(n.Profile)}
	p.Root, p.Team, p.Inbox, p.CreatedAt = root.Path(), pane.Team, seen.Target(), 1
	return tested(ctx, panes, p, policy)
}

func tested(ctx context.Context, panes *pane.Panes, p pane.Pane, policy string) (t api.PaneTest, err error) {
	known := api.Policies()
	if policy == "" {
		policy = known[0]
	}
	if !slices.Contains(known, policy) {
		return t, api.Decide(api.CodeUsage, "", "the policy must be one of %s; it is %q", strings.Join(known, ", "), policy)
	}
	v, err := panes.Views.Look(ctx, p)
	if err != nil {
		return t, err
	}
	t = api.PaneTest{Pane: view.Pane(v), Policy: policy, Prompt: v.Composer.Found}
	t.Look.Draft = v.Composer.Draft
	if v.State == tmux.Gone && !v.Terminal.Dead {
		t.Held, t.Hold = string(tmux.Gone), "there is no such pane any more"
	} else {
		held, why, err := panes.Queue.Held(ctx, p, tmux.Policy(policy))
		if err != nil {
			return t, err
		}
		t.Held, t.Hold = string(held), why
	}
	t.Ready = t.Held == ""
	return t, nil
}

// AddPane registers a pane; see [api.Bridge].
func (l *Files) AddPane(ctx context.Context, n api.NewPane) (shown api.Pane, err error) {
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return shown, err
	}
	p, _, err := panes.Registry.Add(ctx, pane.Registration{
		Name: n.Member, Target: n.Target, Socket: n.Socket, Profile: tmux.Profile(n.Profile), Replace: n.Replace,
	})
	isNew := err == nil
	if exists, ok := errors.AsType[*pane.ExistsError](err); ok && exists.Pane.Inbox == n.Member && (n.Profile == "" || exists.Pane.Profile == tmux.Profile(n.Profile)) {
		if now, rerr := tmux.Resolve(ctx, n.Socket, n.Target); rerr == nil && now.Ref == exists.Pane.Ref {
			p, err = exists.Pane, nil
		}
	}
	if err != nil {
		return shown, err
	}
	v, err := panes.Views.Look(ctx, p)
	shown = view.Pane(v)
	shown.Added = isNew
	return shown, err
}

// RemovePane removes a pane; see [api.Bridge].
func (l *Files) RemovePane(ctx context.Context, name string) (shown api.Pane, err error) {
	panes, p, err := l.registered(ctx, name)
	if err != nil {
		return shown, err
	}
	if l.Opts.Seen != nil { // it was looked at already
		views, err := l.Look(ctx, []pane.Pane{p})
		if err != nil {
			return shown, err
		}
		shown = view.Pane(views[0])
	} else {
		shown = view.Pane(pane.View{Pane: p})
	}
	shown.Queue, err = panes.Registry.Remove(ctx, p.Inbox)
	return shown, err
}

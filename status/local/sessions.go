package local

import (
	"context"
	"fmt"

	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// Sessions returns the sessions of Claude Code on this machine; see [api.Bridge].
func (l *Files) Sessions(ctx context.Context) ([]api.Session, error) {
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	all, err := root.Sessions(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil { // the sessions themselves are known
		l.mu.Lock()
		news := l.unreadable != err.Error()
		l.unreadable = err.Error()
		l.mu.Unlock()
		if news { // only once, not at each call
			l.Opts.Warn(fmt.Errorf("%w; the members of these teams are unknown", err))
		}
	}
	var relayed []ledger.Session
	var known []pane.Pane
	if lg, err := l.Ledger(ctx); err != nil {
		return nil, err
	} else if lg != nil {
		if relayed, err = lg.Sessions.List(ctx, root.Path()); err != nil {
			return nil, err
		}
		if known, err = pane.New(pane.Options{Root: root, Ledger: lg, State: l.Opts.State}).Sessions.Known(ctx); err != nil {
			return nil, err
		}
	}
	for _, p := range l.Homes().Processes() {
		all = append(all, teams.Session{Process: p, Liveness: teams.Alive})
	}
	shown := make([]api.Session, 0, len(all))
	for _, s := range all {
		one := view.Session(s)
		if k, ok := pane.Known(known, s.Process); ok {
			one.As = k.Inbox
		}
		if r, ok := pane.RelayOf(relayed, s.Process); ok {
			one.Relayed, one.Team, one.Member = true, r.Team, r.Inbox
		}
		if one.Way = view.Way(pane.ReachOf(l.Opts.State, s.Process)); one.Member != "" {
			one.Way = api.WayInbox
		}
		if program := pane.ProgramOf(s.Process); program != pane.Session {
			one.Program, one.Headless = string(program), !s.Interactive
		}
		shown = append(shown, one)
	}
	return shown, nil
}

// FindSessions returns the sessions with these names. Without names, it returns the living ones and those with
// waiting messages.
func (l *Files) FindSessions(ctx context.Context, names []string) ([]pane.Pane, error) {
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	lg, err := l.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	panes := pane.New(pane.Options{Root: root, Ledger: lg, State: l.Opts.State, Homes: l.Homes()})
	if len(names) == 0 {
		return panes.Sessions.Around(ctx)
	}
	list := make([]pane.Pane, 0, len(names))
	for _, name := range names {
		one, err := panes.Sessions.Find(ctx, name)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

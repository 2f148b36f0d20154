package bridge

import (
	"context"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/view"
)

// Sessions returns the sessions of Claude Code on this machine; see [api.Bridge].
func (l *Local) Sessions(ctx context.Context) ([]api.Session, error) {
	root, err := l.opts.Root()
	if err != nil {
		return nil, err
	}
	all, err := root.Sessions(ctx)
	if err != nil {
		l.opts.Warn(err) // the sessions are there
	}
	relayed := map[int]ledger.Session{}
	if lg, err := l.Ledger(ctx); err != nil {
		return nil, err
	} else if lg != nil {
		list, err := lg.Sessions(ctx, root.Path())
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if s.PID != 0 {
				relayed[s.PID] = s
			}
		}
	}
	shown := make([]api.Session, 0, len(all))
	for _, s := range all {
		one := view.Session(s)
		r, ok := relayed[s.PID]
		start, _, known := strings.Cut(r.Start, "@") // as in interactive.Elsewhere
		if ok && (!known || s.ProcStart == "" || start == s.ProcStart) {
			one.Relayed, one.Team, one.Member = true, r.Team, r.Inbox
		}
		shown = append(shown, one)
	}
	return shown, nil
}

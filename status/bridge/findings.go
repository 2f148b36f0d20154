package bridge

import (
	"context"
	"errors"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/doctor"
	"teambridge/teams"
)

// Findings returns the problems that keep messages from arriving; see [api.Bridge].
func (l *Local) Findings(ctx context.Context, team string, fix bool) (api.Report, error) {
	root, err := l.Opts.Root()
	missing, ok := errors.AsType[*teams.NoRootError](err)
	if ok && team == "" {
		if root, err = teams.OpenExpected(missing.Dir); err == nil {
			defer root.Close()
		}
	} else if err != nil {
		return api.Report{}, err
	}
	read := func(ctx context.Context) (*journal.Journal, error) {
		if j, err := l.Journal(ctx); err != nil || j != nil {
			return j, err
		}
		return l.OpenJournal(ctx)
	}
	return doctor.Checkup{
		Root: root, NoRoot: missing, State: l.Opts.State, Locker: l.Opts.Locker, LookupEnv: l.Opts.LookupEnv, Dir: l.Opts.Dir, Wait: l.Opts.AnswerWithin, Version: l.Opts.Version,
		Ledger: l.Ledger, Journal: read,
	}.Run(ctx, team, fix)
}

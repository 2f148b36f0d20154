package bridge

import (
	"context"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/doctor"
)

// Findings returns what keeps messages from arriving; see [api.Bridge].
func (l *Local) Findings(ctx context.Context, team string) (api.Report, error) {
	return l.checkup(ctx, team, false)
}

// Fix is Findings, and fixes what it can; see [api.Bridge].
func (l *Local) Fix(ctx context.Context, team string) (api.Report, error) {
	return l.checkup(ctx, team, true)
}

func (l *Local) checkup(ctx context.Context, team string, fix bool) (api.Report, error) {
	root, err := l.opts.Root()
	if err != nil {
		return api.Report{}, err
	}
	read := l.recorded
	if s := l.service; s != nil {
		read = func(context.Context) (*journal.Journal, error) { return s.reader, nil }
	}
	return doctor.Checkup{
		Root: root, State: l.opts.State, Locker: l.opts.Locker, LookupEnv: l.opts.LookupEnv, Dir: l.opts.Dir, Wait: l.opts.AnswerWithin, Version: l.opts.Version,
		Ledger: l.Ledger, Journal: read,
	}.Run(ctx, team, fix)
}

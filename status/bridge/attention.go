package bridge

import (
	"context"
	"fmt"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/replicate"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/status/view"
)

// Status returns what each agent of a team does; see [api.Bridge].
func (l *Local) Status(ctx context.Context, team string) ([]api.Status, error) {
	to, err := l.In(ctx, team)
	if err != nil {
		return nil, err
	}
	defer to.Close() // nothing was written through it
	return l.StatusOf(ctx, &to)
}

// StatusOf returns what each agent of a team does or, if the target has panes, those in them.
func (l *Local) StatusOf(ctx context.Context, to *Target) ([]api.Status, error) {
	if to.Way() == api.WayPane {
		views, err := l.Look(ctx, to.Panes)
		list := make([]api.Status, 0, len(views))
		for _, v := range views {
			list = append(list, view.PaneStatus(v))
		}
		return list, err
	}
	lg, err := l.Ledger(ctx)
	if err != nil && ctx.Err() == nil {
		l.unknown(err)
	}
	c, err := l.states(ctx, lg, to.Name())
	if err != nil {
		return nil, err
	}
	return c.Status(ctx, to.Team)
}

// unknown warns once that the ledger cannot be used. Most of what agents do is known without it.
func (l *Local) unknown(err error) {
	l.mu.Lock()
	warned := l.noLedger
	l.noLedger = true
	l.mu.Unlock()
	if !warned {
		l.opts.Warn(fmt.Errorf("%s; relays are not shown", view.Describe(err)))
	}
}

// Attention returns what waits for the person; see [api.Bridge].
func (l *Local) Attention(ctx context.Context, team string) ([]api.Attention, error) {
	lg, err := l.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	c, err := l.states(ctx, lg, team)
	if err != nil {
		return nil, err
	}
	return c.Attention(ctx, team)
}

// Dismiss hides what waits under an id; see [api.Bridge].
func (l *Local) Dismiss(ctx context.Context, id string) (api.Attention, error) {
	lg, err := l.Ledger(ctx)
	if err != nil {
		return api.Attention{}, err
	}
	c, err := l.states(ctx, lg, "")
	if err != nil {
		return api.Attention{}, err
	}
	return c.Dismiss(ctx, id)
}

// Relays returns the relays that were added or run; see [api.Bridge].
func (l *Local) Relays(ctx context.Context, team string) ([]api.RelayEntry, error) {
	c, err := l.relays(ctx)
	if err != nil {
		return nil, err
	}
	return c.Relays(ctx, team)
}

// relays returns what knows the relays, whatever the journal has.
func (l *Local) relays(ctx context.Context) (*attention.Cache, error) {
	if s := l.opts.Service; s != nil {
		return s.States, nil
	}
	lg, err := l.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	opts, err := l.known(lg, nil)
	return attention.New(opts), err
}

// states returns what knows what agents do and what waits: that of the service, or one of a ledger
// and the journal, either of which may be missing. What is in the inboxes of a team is recorded
// first, or in those of all if the name is empty.
func (l *Local) states(ctx context.Context, lg *ledger.Ledger, team string) (*attention.Cache, error) {
	if s := l.opts.Service; s != nil {
		return s.States, nil
	}
	j, err := l.Journal(ctx)
	if err != nil {
		return nil, err
	}
	opts, err := l.known(lg, j)
	if err == nil && lg != nil {
		opts.Panes, err = l.OpenPanes(ctx)
	}
	if err != nil {
		return nil, err
	}
	if j != nil && !l.records() {
		l.present(ctx, opts, team)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cache == nil || l.source != opts.Source || l.idle != opts.Idle {
		l.cache, l.source, l.idle = attention.New(opts), opts.Source, opts.Idle
	}
	return l.cache, nil
}

// known says what a command knows.
func (l *Local) known(lg *ledger.Ledger, j *journal.Journal) (attention.Options, error) {
	root, err := l.opts.Root()
	opts := attention.Options{Root: root, State: l.opts.State, Source: status.Source{Journal: j, Ledger: lg}, Idle: attention.NoService, Narrow: true}
	if l.opts.Idle != nil {
		opts.Idle = l.opts.Idle()
	}
	return opts, err
}

// present records what is in the inboxes of a team, or of all, as a service does all the time. If
// that fails, it warns.
func (l *Local) present(ctx context.Context, known attention.Options, team string) {
	within, done := ctx, func() {}
	if l.opts.RecordWithin > 0 {
		within, done = context.WithTimeout(ctx, l.opts.RecordWithin)
	}
	defer done()
	err := func() error {
		if known.Ledger != nil {
			if _, err := replicate.Copy(within, known.Ledger, known.Journal); err != nil {
				return err
			}
		}
		all, err := known.Root.Teams()
		if err != nil {
			return err
		}
		for _, t := range all {
			if team == "" || t.Name == team {
				if err := look(within, known, t.Name); err != nil {
					return err
				}
			}
		}
		return nil
	}()
	if err != nil && ctx.Err() == nil {
		l.opts.Warn(fmt.Errorf("%s; the latest messages may be missing", view.Describe(err)))
	}
}

// look records what is in the inboxes of one team. One that cannot be read shows its problem
// elsewhere.
func look(ctx context.Context, known attention.Options, team string) error {
	t, err := known.Root.Team(team)
	if err != nil {
		return nil
	}
	defer t.Close() // nothing was written through it
	c, err := t.Config(ctx)
	if err != nil {
		return nil
	}
	names, err := t.Inboxes()
	if err != nil {
		return nil
	}
	boxes := make([]journal.InboxKey, len(names))
	for i, name := range names {
		boxes[i] = journal.InboxKey{Root: known.Root.Path(), Team: c.Instance(), Inbox: name}
	}
	return replicate.Look(ctx, known.Journal, boxes...)
}

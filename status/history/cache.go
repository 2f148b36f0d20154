package history

import (
	"context"
	"errors"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/teams"
)

// StatusOf returns what each agent of a team does.
func (l *Archive) StatusOf(ctx context.Context, t *teams.Team) (list []api.Status, err error) {
	if !l.records() { // what agents do is judged by what they write
		rec, err := l.Record(ctx, t.Name())
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, rec.Close()) }()
	}
	lg, _ := l.Ledger(ctx) // most is known without it, and what records warns
	c, err := l.Cache(ctx, lg, t.Name())
	if err != nil {
		return nil, err
	}
	return c.Status(ctx, t)
}

// Attention returns what waits for the person; see [api.Bridge].
func (l *Archive) Attention(ctx context.Context, team string) ([]api.Attention, error) {
	if within := l.Opts.RecordWithin; within > 0 { // a journal that another process keeps locked is not waited for
		opening, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		if _, err := l.Journal(opening); err != nil {
			return nil, err
		}
	}
	lg, err := l.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	c, err := l.Cache(ctx, lg, team)
	if err != nil {
		return nil, err
	}
	return c.Attention(ctx, team)
}

// Dismiss hides what waits under an id; see [api.Bridge].
func (l *Archive) Dismiss(ctx context.Context, id string) (api.Attention, error) {
	lg, err := l.Ledger(ctx)
	if err != nil {
		return api.Attention{}, err
	}
	c, err := l.Cache(ctx, lg, "")
	if err != nil {
		return api.Attention{}, err
	}
	return c.Dismiss(ctx, id)
}

// Relays returns the relays that were added or run; see [api.Bridge].
func (l *Archive) Relays(ctx context.Context, team string) ([]api.RelayEntry, error) {
	c, err := l.RelayCache(ctx)
	if err != nil {
		return nil, err
	}
	return c.Relays(ctx, team)
}

// RelayCache returns the attention cache for what is known of relays, whatever the journal has.
func (l *Archive) RelayCache(ctx context.Context) (*attention.Cache, error) {
	lg, err := l.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	return l.known(ctx, status.Source{Ledger: lg})
}

// Cache returns the attention cache for a team, or for all, with a ledger, which may be nil. What
// is in the inboxes is recorded first, as a service does all the time, unless somebody records it.
func (l *Archive) Cache(ctx context.Context, lg *ledger.Ledger, team string) (*attention.Cache, error) {
	j, err := l.Journal(ctx)
	if err != nil {
		return nil, err
	}
	if j != nil && !l.records() {
		l.refresh(ctx, j, func() ([]inbox.InboxKey, error) { return l.inboxes(ctx, team) })
	}
	return l.known(ctx, status.Source{Journal: j, Ledger: lg})
}

// known returns what a ledger and a journal tell, either of which may be missing, or what the service
// knows. A command keeps what it has read.
func (l *Archive) known(ctx context.Context, source status.Source) (*attention.Cache, error) {
	if l.always {
		return l.rec.States, nil
	}
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	opts := attention.Options{Root: root, State: l.Opts.State, Source: source, Idle: l.Opts.Idle(), Narrow: true}
	if source.Ledger == nil {
		opts.Panes = pane.New(pane.Options{Root: root, State: l.Opts.State, Homes: l.Homes()})
	} else if opts.Panes, err = l.OpenPanes(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cache == nil || l.source != source || l.idle != opts.Idle {
		l.cache, l.source, l.idle = attention.New(opts), source, opts.Idle
	}
	return l.cache, nil
}

// inboxes lists the inboxes of a team, or of all if the name is empty. Teams that cannot be read have
// none: their states show the problem.
func (l *Archive) inboxes(ctx context.Context, team string) (boxes []inbox.InboxKey, err error) {
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	all, err := root.Teams()
	for _, listed := range all {
		if team != "" && listed.Name != team {
			continue
		}
		t, err := root.Team(listed.Name)
		if err != nil {
			continue
		}
		c, cerr := t.Config(ctx)
		names, nerr := t.Inboxes()
		_ = t.Close() // nothing was written through it
		if cerr != nil || nerr != nil {
			continue
		}
		for _, name := range names {
			boxes = append(boxes, inbox.Key(root.Path(), c.Instance(), name))
		}
	}
	return boxes, err
}

// Statuses returns what each agent of a team does, by what was recorded.
func (l *Archive) Statuses(ctx context.Context, r *Recorder, t *teams.Team) ([]api.Status, error) {
	c, err := l.Cache(ctx, r.Ledger(ctx), t.Name())
	if err != nil {
		return nil, err
	}
	return c.Status(ctx, t)
}

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

// StatusOf returns the present state of each agent of a team.
func (l *Archive) StatusOf(ctx context.Context, t *teams.Team) (list []api.Status, err error) {
	if !l.records() { // states are judged by what agents write, so record that first
		rec, err := l.Record(ctx, t.Name())
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, rec.Close()) }()
	}
	lg, _ := l.Ledger(ctx) // most states need no ledger, and a recorder has warned already
	c, err := l.Cache(ctx, lg, t.Name())
	if err != nil {
		return nil, err
	}
	return c.Status(ctx, t)
}

// Attention returns the items that wait for the person; see [api.Bridge].
func (l *Archive) Attention(ctx context.Context, team string) ([]api.Attention, error) {
	if within := l.Opts.RecordWithin; within > 0 { // do not wait for a journal that another process keeps locked
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

// Dismiss hides the item with an id; see [api.Bridge].
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

// RelayCache returns the attention cache for relays. It does not depend on the journal.
func (l *Archive) RelayCache(ctx context.Context) (*attention.Cache, error) {
	lg, err := l.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	return l.known(ctx, status.Source{Ledger: lg})
}

// Cache returns the attention cache for a team, or for all. lg may be nil. It first records the inboxes, as a
// service does all the time, unless a recorder runs already.
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

// known returns the service's cache, or one that reads a ledger and a journal. Either may be missing. A command
// keeps its cache.
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

// inboxes lists the inboxes of a team, or of all if the name is empty. It skips teams that cannot be read:
// their states show the problem.
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
		_ = t.Close() // it was only read
		if cerr != nil || nerr != nil {
			continue
		}
		for _, name := range names {
			boxes = append(boxes, inbox.Key(root.Path(), c.Instance(), name))
		}
	}
	return boxes, err
}

// Statuses returns the present state of each agent of a team, from the records.
func (l *Archive) Statuses(ctx context.Context, r *Recorder, t *teams.Team) ([]api.Status, error) {
	c, err := l.Cache(ctx, r.Ledger(ctx), t.Name())
	if err != nil {
		return nil, err
	}
	return c.Status(ctx, t)
}

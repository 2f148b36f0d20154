package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/teams"
)

// Status returns what each agent of a team does; see [api.Bridge].
func (l *Local) Status(ctx context.Context, team string, members ...string) ([]api.Status, error) {
	to, err := l.In(ctx, team, members...)
	if err != nil {
		return nil, err
	}
	defer to.Close() // nothing was written through it
	w, err := l.by(&to, "")
	if err != nil {
		return nil, err
	}
	list, err := w.status(ctx, &to)
	if err != nil {
		return nil, err
	}
	lg, _ := l.Ledger(ctx) // most is known without it
	c, err := l.states(ctx, lg, to.Name())
	if err == nil {
		err = c.Place(ctx, to.Name(), list)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil { // what they do is known
		l.Opts.Warn(fmt.Errorf("%w; what agents were told, and what waits because of them, is not shown", err))
	}
	return list, nil
}

func (l inboxWay) status(ctx context.Context, to *Target) ([]api.Status, error) {
	all, err := l.statusOf(ctx, to.Team)
	if err != nil || len(to.Members) == 0 {
		return all, err
	}
	var some []api.Status
	for _, name := range to.Members {
		i := slices.IndexFunc(all, func(s api.Status) bool { return s.Member == name }) // it may have left
		if i < 0 {
			if name, err = to.Team.Resolve(ctx, name); err != nil {
				return nil, l.alike(ctx, err, "")
			}
			i = slices.IndexFunc(all, func(s api.Status) bool { return s.Member == name })
		}
		if i < 0 {
			return nil, api.Decide(api.CodeNotFound, "list the members with: teambridge members", "%s is not an agent of %s", name, to.Name())
		}
		some = append(some, all[i])
	}
	return some, nil
}

// statusOf returns what each agent of a team does.
func (l *Local) statusOf(ctx context.Context, t *teams.Team) (list []api.Status, err error) {
	if l.service == nil && !l.records() { // what agents do is judged by what they write
		rec, err := l.Record(ctx, t.Name())
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, rec.Close()) }()
	}
	lg, _ := l.Ledger(ctx) // most is known without it, and what records warns
	c, err := l.states(ctx, lg, t.Name())
	if err != nil {
		return nil, err
	}
	return c.Status(ctx, t)
}

// Attention returns what waits for the person; see [api.Bridge].
func (l *Local) Attention(ctx context.Context, team string) ([]api.Attention, error) {
	if within := l.Opts.RecordWithin; l.service == nil && within > 0 { // a journal that another process keeps locked is not waited for
		opening, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		if _, err := l.Journal(opening); err != nil {
			return nil, err
		}
	}
	c, err := l.waits(ctx, team)
	if err != nil {
		return nil, err
	}
	return c.Attention(ctx, team)
}

// Dismiss hides what waits under an id; see [api.Bridge].
func (l *Local) Dismiss(ctx context.Context, id string) (api.Attention, error) {
	c, err := l.waits(ctx, "")
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
	lg, err := l.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	return l.known(ctx, status.Source{Ledger: lg})
}

// waits returns what knows what waits in a team, or in all if the name is empty.
func (l *Local) waits(ctx context.Context, team string) (*attention.Cache, error) {
	lg, err := l.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	return l.states(ctx, lg, team)
}

// states returns what knows the states of a team, or of all, with a ledger, which may be nil. What
// is in the inboxes is recorded first, as a service does all the time, unless somebody records it.
func (l *Local) states(ctx context.Context, lg *ledger.Ledger, team string) (*attention.Cache, error) {
	j, err := l.reads(ctx)
	if err != nil {
		return nil, err
	}
	if j != nil && l.service == nil && !l.records() {
		l.refresh(ctx, j, func() ([]journal.InboxKey, error) { return l.inboxes(ctx, team) })
	}
	return l.known(ctx, status.Source{Journal: j, Ledger: lg})
}

// known returns what a ledger and a journal tell, either of which may be missing, or what the service
// knows. A command keeps what it has read.
func (l *Local) known(ctx context.Context, source status.Source) (*attention.Cache, error) {
	if s := l.service; s != nil {
		return s.states, nil
	}
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	opts := attention.Options{Root: root, State: l.Opts.State, Source: source, Idle: l.Opts.Idle(), Narrow: true}
	if source.Ledger == nil {
		opts.Panes = pane.New(pane.Options{Root: root, State: l.Opts.State, Homes: l.homes()})
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
func (l *Local) inboxes(ctx context.Context, team string) (boxes []journal.InboxKey, err error) {
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
			boxes = append(boxes, journal.InboxKey{Root: root.Path(), Team: c.Instance(), Inbox: name})
		}
	}
	return boxes, err
}

package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// Move requests the move of a session; see [api.Bridge].
func (l *Control) Move(ctx context.Context, team, member string, n api.NewPlace) (api.Placed, error) {
	w, err := l.Wish(ctx, team, member, n)
	if err != nil {
		return api.Placed{}, err
	}
	return w.Placed, w.Close()
}

// Wish is a request to move a session. Close it.
type Wish struct {
	api.Placed // where the session is

	move   relay.Move
	number int64 // 0: the session is there already
}

// Wish makes a request like [Control.Move], which can then be waited for. If team is "", it looks for the
// member among the sessions that can move.
func (l *Control) Wish(ctx context.Context, team, member string, n api.NewPlace) (w *Wish, err error) {
	if n.To != api.PlaceLocal && n.To != api.PlaceRemote {
		return nil, api.Decide(api.CodeInvalid, "", "to is %q; it must be %s or %s", n.To, api.PlaceLocal, api.PlaceRemote)
	}
	if team == "" {
		if team, err = l.movableIn(ctx, member); err != nil {
			return nil, err
		}
	}
	t, c, err := l.real(ctx, team)
	if err != nil {
		return nil, err
	}
	w = &Wish{move: relay.Move{State: l.Opts.State, Team: t, Config: c, To: ledger.Place(n.To), Force: n.Force}}
	h, err := l.ask(ctx, w, member)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if w.number > 0 {
		h.Wanted = w.move.To
		l.carrying.Moved(t.Name())
	}
	w.Placed = api.Placed{Team: t.Name(), Member: w.move.Member, Place: view.Place(h)}
	return w, nil
}

func (l *Control) ask(ctx context.Context, w *Wish, member string) (h ledger.Handoff, err error) {
	if w.move.Ledger, err = l.Opts.Ledger(ctx); err != nil {
		return h, err
	}
	if w.move.Member, err = w.move.Team.Resolve(ctx, member); err != nil {
		return h, err
	}
	w.number, h, err = w.move.Ask(ctx)
	return h, err
}

// Asked reports whether the session has to move: it is not there already.
func (w *Wish) Asked() bool { return w.number > 0 }

// Close closes the team. The request remains.
func (w *Wish) Close() error { return w.move.Team.Close() }

// takeBackWithin limits the time for withdrawing a request after a wait in vain.
const takeBackWithin = 2 * time.Second

// Wait waits until the session has moved, and calls held with each new reason why it has not. If ctx ends
// first, it withdraws the request, and returns the cause.
func (w *Wish) Wait(ctx context.Context, held func(at, reason string)) error {
	at := w.Place.At
	h, err := w.move.Wait(ctx, w.number, func(reason string) { held(at, reason) })
	if ctx.Err() != nil && err != nil {
		h, err = w.takeBack(ctx)
	}
	if refused, ok := errors.AsType[*relay.RefusedError](err); ok {
		return api.Decide(api.CodeRefused, "", "%s@%s was not moved: %s", w.Member, w.Team, refused.Reason)
	}
	w.Place = view.Place(h)
	return err
}

// takeBack withdraws a request after ctx has ended. The move may have just happened.
func (w *Wish) takeBack(ctx context.Context) (ledger.Handoff, error) {
	why := context.Cause(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackWithin)
	defer cancel()
	withdrawn, err := w.move.Withdraw(ctx, w.number)
	if err != nil || withdrawn {
		return ledger.Handoff{}, cmp.Or(err, why)
	}
	return w.move.Wait(ctx, w.number, func(string) {})
}

// movableIn returns the team of the only session of a member that can move.
func (l *Control) movableIn(ctx context.Context, member string) (team string, err error) {
	root, err := l.Opts.Root()
	if err != nil {
		return "", err
	}
	all, err := l.Movable(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, h := range all {
		if h.Inbox == root.MemberName(ctx, h.Team, member) {
			team = h.Team
			found = append(found, h.Inbox+"@"+h.Team)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%s: %w", member, relay.ErrStays)
	case 1:
		return team, nil
	}
	return "", api.Decide(api.CodeUsage, "they are "+strings.Join(found, ", "), "%q matches %d sessions", member, len(found))
}

// Movable returns the sessions that can move: their launchers run.
func (l *Control) Movable(ctx context.Context) (list []ledger.Handoff, err error) {
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	lg, err := l.Ledger(ctx)
	if err != nil || lg == nil {
		return nil, err
	}
	all, err := lg.Sessions.Handoffs(ctx, root.Path())
	for _, h := range all {
		t, err := root.Team(h.Team)
		if err != nil {
			continue // the team has ended
		}
		if c, err := t.Config(ctx); err == nil && c.Instance().CreatedAt == h.CreatedAt && l.launched(t, h.Inbox) {
			list = append(list, h)
		}
		_ = t.Close() // it was only read
	}
	return list, err
}

// launched reports whether the launcher of a session runs.
func (l *Control) launched(t *teams.Team, inbox string) bool {
	runs, err := relay.Running(l.Opts.State, t, inbox)
	return err == nil && runs
}

package bridge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/view"
)

// Deliveries returns deliveries, the newest first; see [api.Bridge].
func (l *Control) Deliveries(ctx context.Context, q api.DeliveryQuery) ([]api.Delivery, error) {
	wanted := ledger.DeliveryQuery{Team: q.Team, Limit: q.Limit}
	for name := range strings.SplitSeq(q.State, ",") {
		state := ledger.DeliveryState(name)
		switch {
		case name == "":
		case !state.Ended() && !slices.Contains(unfinished(), state):
			return nil, api.Decide(api.CodeUsage, "", "%q is not a state of deliveries", name)
		default:
			wanted.States = append(wanted.States, state)
		}
	}
	root, err := l.AnyRoot()
	if err != nil {
		return nil, err
	}
	if root != nil {
		wanted.Root = root.Path()
	}
	if q.Relay != "" {
		e, err := l.Relay(ctx, q.Team, q.Relay)
		if err != nil {
			return nil, err
		}
		wanted.Team, wanted.Inbox = e.Team, e.Member
	}
	return l.deliveries(ctx, wanted)
}

// unfinished returns the states that [api.Unfinished] stands for.
func unfinished() (states []ledger.DeliveryState) {
	for name := range strings.SplitSeq(api.Unfinished, ",") {
		states = append(states, ledger.DeliveryState(name))
	}
	return states
}

func (l *Control) deliveries(ctx context.Context, q ledger.DeliveryQuery) ([]api.Delivery, error) {
	list := []api.Delivery{}
	lg, err := l.Ledger(ctx)
	if err != nil || lg == nil {
		return list, err
	}
	found, err := lg.Deliveries.List(ctx, q)
	for _, d := range found {
		shown := view.Delivery(d)
		if d.State == ledger.Claimed && d.Person && d.Reason == "" { // the ledger keeps the reason why a message to a pane waits with the message
			m, _, perr := lg.PaneMessages.Message(ctx, d.UUID)
			shown.Reason, err = cmp.Or(m.Detail, m.Held), errors.Join(err, perr)
		}
		list = append(list, shown)
	}
	return list, err
}

// RetryDelivery delivers a failed message again; see [api.Bridge].
func (l *Control) RetryDelivery(ctx context.Context, id string) (api.Delivery, error) {
	return l.changeDelivery(ctx, id, ledger.Deliveries.Retry)
}

// DropDelivery gives up a delivery; see [api.Bridge].
func (l *Control) DropDelivery(ctx context.Context, id string) (api.Delivery, error) {
	return l.changeDelivery(ctx, id, ledger.Deliveries.Drop)
}

// changeDelivery changes the delivery with an id, or the only unfinished one whose id begins with it.
func (l *Control) changeDelivery(ctx context.Context, id string, change func(ledger.Deliveries, context.Context, string) error) (d api.Delivery, err error) {
	open, err := l.deliveries(ctx, ledger.DeliveryQuery{States: unfinished()})
	if err != nil {
		return d, err
	}
	ids := make([]string, len(open))
	for i, d := range open {
		ids[i] = d.Delivery
	}
	whole, err := view.WholeID(id, ids)
	if err != nil {
		return d, err
	}
	whole = cmp.Or(whole, id)
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return d, err
	}
	unknown := api.Decide(api.CodeNotFound, "list them with: teambridge relay list", "there is no delivery %s", id)
	if err = change(lg.Deliveries, ctx, whole); errors.Is(err, ledger.ErrUnknown) {
		return d, unknown
	}
	if err != nil {
		return d, err
	}
	l.carrying.Sent()
	l.carrying.Queued()
	changed, err := l.deliveries(ctx, ledger.DeliveryQuery{UUID: whole})
	if err != nil || len(changed) == 0 {
		return d, cmp.Or(err, unknown)
	}
	return changed[0], nil
}

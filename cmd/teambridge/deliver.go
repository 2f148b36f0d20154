package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"teambridge/status/api"
	"teambridge/status/client"
)

// deliver has send send a message, and waits for what was asked for, or until it is typed into a pane. It
// returns what is known even if there is an error.
func (a *app) deliver(ctx context.Context, m api.NewMessage, o sendOptions, send func(b api.Bridge, id string) (api.Sent, error)) (api.Sent, error) {
	var first api.Sent // what the service answered, if that failed later
	do := func(b api.Bridge, id string) (api.Sent, error) {
		sent, err := send(b, id)
		err = a.unsure(err, id)
		switch {
		case err != nil && sent.State == "" && id != o.id:
			return api.Sent{ID: id, State: api.Failed}, err
		case err != nil:
			return sent, err
		case o.id == "" || first.State != "": // not because of what the service did
			sent.Deduplicated = first.Deduplicated
		}
		until := cmp.Or(m.Wait, sent.Next())
		if first = sent; until == "" || o.dryRun {
			return sent, nil
		}
		goesOn := until == api.Verified && !o.chosen // to another machine
		if _, served := b.(*client.Client); served {
			a.debug("the service has sent it, and waits")
		}
		defer a.showsWait(ctx, sent)()
		timeout := o.timeout
		if goesOn {
			timeout = reachedWithin
		}
		now, err := b.Await(ctx, sent, until, timeout)
		if goesOn && errors.Is(err, api.CodeTimeout) {
			err = nil
		}
		if a.there != nil && errors.Is(err, client.ErrUnreachable) {
			err = api.Decide(api.CodeTimeout, "it stays sent; to wait again, send it again under the same id: teambridge send --id "+id, "the message %s is %s, and what becomes of it is not known: %w", id, sent.State, err)
		}
		return now, err
	}
	sent, err := once(ctx, a, a.bridge(ctx), o.id, !o.needsRelay(), do)
	if err == nil && o.dryRun && sent.Reason != "" {
		a.note("it would wait now: %s", sent.Reason)
	}
	return sent, err
}

// reachedWithin is how long a message to another machine is waited for without being asked.
const reachedWithin = 3 * time.Second

// showsWait shows that a message is waited for and, of one to a pane, why it waits, until stop is
// called.
func (a *app) showsWait(ctx context.Context, s api.Sent) (stop func()) {
	done := a.working("waiting until %s has taken the message", s.Member)
	if s.State != api.Waiting {
		return done
	}
	noted := a.noteHeld(ctx, s.Team, s.ID)
	return func() { noted(); done() }
}

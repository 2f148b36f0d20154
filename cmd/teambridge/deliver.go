package main

import (
	"context"
	"errors"
	"time"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
)

// deliver calls send, and then waits for the requested state, or until the message is typed into a pane. Even
// with an error, it returns as much of the result as is known.
func (a *app) deliver(ctx context.Context, m api.NewMessage, o sendOptions, send func(b api.Bridge, id string) (api.Sent, error)) (api.Sent, error) {
	var first api.Sent // the result of a service that failed later
	do := func(b api.Bridge, id string) (api.Sent, error) {
		sent, err := send(b, id)
		err = a.unsure(err, id)
		switch {
		case err != nil && sent.State == "" && id != o.id:
			return api.Sent{ID: id, State: api.Failed}, err
		case err != nil:
			return sent, err
		case o.id == "" || first.State != "": // the files may have the message that the service has just sent
			sent.Deduplicated = first.Deduplicated
		}
		until := sent.Until(m.Wait)
		if first = sent; until == "" || o.dryRun {
			return sent, nil
		}
		toMachine := until == api.Verified && !o.chosen // the default wait of a message to another machine
		if _, served := b.(*client.Client); served {
			a.debug("the service has sent it, and waits")
		}
		defer a.showsWait(ctx, sent)()
		timeout := o.timeout
		if toMachine {
			timeout = reachedWithin
		}
		now, err := b.Await(ctx, sent, until, timeout)
		if toMachine && errors.Is(err, api.CodeTimeout) {
			err = nil
		}
		if a.there != nil && errors.Is(err, client.ErrUnreachable) {
			err = api.Decide(api.CodeTimeout, "it stays sent; to wait again, send it again under the same id: teambridge send --id "+id, "the message %s is %s, and what becomes of it is not known: %w", id, view.State(sent.State), err)
		}
		return now, err
	}
	sent, err := once(ctx, a, a.bridge(ctx), o.id, !o.needsRelay(), do)
	if err == nil && o.dryRun && sent.Reason != "" {
		a.note("it would wait now: %s", sent.Reason)
	}
	return sent, err
}

// reachedWithin is the default wait for a message to reach another machine.
const reachedWithin = 3 * time.Second

// showsWait shows that the command waits for a message and, if that is held at a pane, the reason. It ends when
// stop is called.
func (a *app) showsWait(ctx context.Context, s api.Sent) (stop func()) {
	done := a.working("waiting until %s has taken the message", s.Member)
	if s.State != api.Waiting {
		return done
	}
	noted := a.noteHeld(ctx, s.ID)
	return func() { noted(); done() }
}

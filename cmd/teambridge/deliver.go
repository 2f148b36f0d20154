package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams"
	"time"

	"github.com/google/uuid"
)

// notRelayed is the error for a message that needs a relay, which the member has not.
func notRelayed(why string) error {
	return api.Decide(api.CodeInvalid, "omit --mode and --isolated to put it into the inbox, as a teammate's message",
		"--mode and --isolated are for agents that a service relays to: %s", why)
}

// deliver sends a message through the service, if one runs, since it follows the message after
// the command has ended, and prompts the agents that it runs. Else, or if that fails, it uses the
// files, under the same id, so that the message is sent once. Then it waits, if asked to, and
// for what is typed into a pane. It returns what is known even if there is an error.
func (a *app) deliver(ctx context.Context, to *bridge.Target, m bridge.Message, o sendOptions) (api.Sent, error) {
	root, err := a.root()
	if err != nil {
		return api.Sent{}, err
	}
	ctx = bridge.WithPerson(ctx)
	var c *client.Client
	if o.via == "" { // the service may not know the tmux server of others
		c = a.service(root)
	}
	if c != nil {
		defer c.Close()
	} else if o.needsRelay() {
		why := "no service runs"
		if _, err := client.Find(a.state, root.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			why = view.Describe(err)
		}
		return api.Sent{}, notRelayed(why)
	}
	if c == nil || o.dryRun {
		if o.dryRun {
			m.Mode, m.Isolated = nil, false // which a relay of the service would check
		}
		return a.deliverHere(ctx, to, m, o)
	}
	if to.Way() == api.WayPane {
		if err := bridge.Closed(ctx, to.Panes[0]); err != nil {
			return api.Sent{}, err
		}
	}
	chosen := m.ID
	m.ID = cmp.Or(m.ID, uuid.NewString())
	start := time.Now()
	asking, done := a.present(ctx, c)
	sent, err := c.Send(asking, to.Name(), to.Member(), m.ID, m.NewMessage)
	done()
	if err != nil {
		sent = api.Sent{Team: to.Name(), Member: to.Member(), ID: m.ID, State: api.Failed}
	} else if sent, err = a.awaitServed(ctx, c, to, sent, o); o.awaits(to) != "" {
		sent.WaitedMs = time.Since(start).Milliseconds()
	}
	err = refusal(err)
	failure, ok := errors.AsType[*serviceError](err)
	switch {
	case !ok, o.needsRelay() && failure.sent:
		return sent, err
	case o.needsRelay():
		// In an inbox it would be a teammate's message, and change no mode.
		return sent, notRelayed(view.Describe(err))
	}
	a.debug("going on without the service: %v", failure)
	if !failure.sent {
		m.ID = chosen
	}
	here, err := a.deliverHere(ctx, to, m, o)
	if sent.State != api.Failed || chosen == "" {
		here.Deduplicated = sent.Deduplicated // not because of what the service did
	}
	return here, err
}

// awaits is the state of a message that the command waits for, or "".
func (o *sendOptions) awaits(to *bridge.Target) string {
	switch {
	case o.dryRun:
		return ""
	case o.typed(to):
		return api.Confirmed
	case o.wait == api.Verified:
		return ""
	}
	return o.wait
}

// deliverHere sends a message without the service, and waits if asked to.
func (a *app) deliverHere(ctx context.Context, to *bridge.Target, m bridge.Message, o sendOptions) (api.Sent, error) {
	sent, err := a.local().SendTo(ctx, to, m)
	if err == nil && o.dryRun && sent.Reason != "" {
		a.note("it would wait now: %s", sent.Reason)
	}
	until := o.awaits(to)
	if err != nil || until == "" {
		return sent, err
	}
	defer a.showsWait(ctx, sent)()
	return a.local().Await(ctx, sent, until, o.timeout)
}

// showsWait shows that a message is waited for and, of one to a pane, why it waits, until stop is
// called.
func (a *app) showsWait(ctx context.Context, s api.Sent) (stop func()) {
	done := a.working("waiting until %s has taken the message", s.Member)
	if s.State != api.Waiting {
		return done
	}
	noted := a.noteHeld(ctx, func(m ledger.PaneMessage) bool { return m.UUID == s.Delivery })
	return func() { noted(); done() }
}

// awaitServed waits for what a message comes to that the service has sent, if asked to. The
// error is one of package client if the service failed.
func (a *app) awaitServed(ctx context.Context, c *client.Client, to *bridge.Target, s api.Sent, o sendOptions) (api.Sent, error) {
	until := o.awaits(to)
	if until == "" {
		return s, nil
	}
	a.debug("the service has sent it, and waits")
	defer a.showsWait(ctx, s)()
	if until == api.Confirmed {
		return a.local().Await(ctx, s, until, o.timeout)
	}
	wait, cancel := within(ctx, o.timeout, "")
	defer cancel()
	settled := c.Settled
	if until == api.Seen {
		settled = c.Seen
	}
	r, err := settled(wait, s.Team, s.Member, s.ID)
	switch {
	case err != nil && ctx.Err() != nil:
		return s, context.Cause(ctx)
	case err != nil && wait.Err() != nil:
		asking, done := context.WithTimeout(ctx, answerWait)
		defer done()
		if last, err := c.Receipt(asking, s.Team, s.Member, s.ID); err == nil && last.State == api.Consumed && until == api.Seen {
			return s, a.local().NotSeen(to.Team, s, o.timeout)
		}
		return s, a.local().NotTaken(ctx, to.Team, s, o.timeout)
	case errors.Is(err, client.ErrUnreachable):
		return s, &serviceError{sent: true, err: err}
	case err != nil:
		return s, err
	case r.State == api.Lost:
		return s, api.Decide(api.CodeLost, view.Explain(inbox.ErrLost).Hint, "%s", r.Reason)
	case r.State == api.Unknown:
		if err := to.Team.Exists(); errors.Is(err, teams.ErrTeamGone) {
			return s, err
		}
		return s, api.Decide(api.CodeUnknown, view.Explain(inbox.ErrUnclear).Hint, "%s", r.Reason)
	}
	s.State = until
	return s, nil
}

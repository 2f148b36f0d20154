package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams"
)

// Messages are sent through the service if one runs, since it follows them after the
// command has ended, and prompts the agents that it relays to. If it does not answer, the
// command sends the message itself under the same id, so that it is sent only once.

// Some things only the service knows: what its agents ask, and why one of them stopped. A
// command that shows such things asks with askService. If no service runs, nothing is missing.
// If one runs and does not answer, the command shows what it knows without it, and then fails
// with [unheard]: status 4. One that goes on, as watch does, warns, and asks again.

// askService lets do ask the service of a Claude directory. answered is false if none runs, or
// with an error: that of do or, if the service cannot be asked, of package client.
func (a *app) askService(ctx context.Context, root *teams.Root, do func(context.Context, *client.Client) error) (answered bool, err error) {
	if a.silent != nil && time.Since(a.silentSince) < silentFor {
		return false, a.silent
	}
	a.silent = nil
	c, err := client.Find(a.state, root.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		a.debug("asking the service at %s", c.Where())
		asking, done := a.present(ctx, c)
		err = do(asking, c)
		done()
		c.Close()
	}
	if ctx.Err() == nil && errors.Is(err, client.ErrUnreachable) {
		if _, gone := client.Find(a.state, root.Path()); errors.Is(gone, fs.ErrNotExist) {
			return false, nil // it has just ended
		}
		a.silent, a.silentSince = err, time.Now()
	}
	return err == nil, err
}

// silentFor is how long a service that did not answer is not asked again: a command can ask
// several times, and wait each time.
const silentFor = 5 * time.Second

// unheard is the error of a command that could not ask the service, because of why.
func unheard(why error) error {
	if why == nil {
		return nil
	}
	return fmt.Errorf("%w; what agents of the service ask, and why they stopped, is not known", why)
}

// without warns once that a command that goes on could not ask the service, because of why.
func (a *app) without(why error) {
	if why != nil && !a.alone {
		a.warn("%s", view.Describe(unheard(why)))
	}
	a.alone = why != nil
}

// service returns a client of the service of a Claude directory; nil if none runs.
func (a *app) service(root *teams.Root) *client.Client {
	c, err := client.Find(a.state, root.Path())
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.debug("no service is asked: %v", err)
		}
		return nil
	}
	if card, names := a.strayed(root); len(names) > 0 {
		if !a.strays {
			a.warn("the service (process %d) is not used: while it ran, %s moved away or replaced in %s; end it, and see: teambridge doctor", card.PID, wasWere(names), a.state)
			a.strays = true
		}
		return nil
	}
	a.debug("asking the service at %s", c.Where())
	return c
}

func wasWere(names []string) string {
	if len(names) == 1 {
		return names[0] + " was"
	}
	return strings.Join(names, " and ") + " were"
}

// strayed returns the names of the databases in the state directory that the running service
// does not have open, as far as the system tells. A service of this version ends when that
// happens, and one of an earlier version goes on recording where nobody looks.
func (a *app) strayed(root *teams.Root) (card api.Card, names []string) {
	card, err := api.ReadCard(a.state, root.Path())
	if err != nil {
		return card, nil
	}
	// In another container, the process of this number is another one.
	if it, _ := sqlite.Uses(card.PID, api.LockPath(a.state, root.Path())); !it {
		return card, nil
	}
	for _, name := range []string{"ledger.db", "journal.db"} {
		if uses, known := sqlite.Uses(card.PID, filepath.Join(a.state, name)); known && !uses {
			names = append(names, name)
		}
	}
	return card, names
}

// answerWait is how long a request may take before the service is asked whether it is there,
// and how long that may take.
const answerWait = time.Second

// present bounds ctx by health checks of the service: a request may wait for the lock of an
// inbox, but not for a service that has stopped, which is [client.ErrUnreachable].
func (a *app) present(ctx context.Context, c *client.Client) (context.Context, context.CancelFunc) {
	bound, end := context.WithCancelCause(ctx)
	wait := cmp.Or(a.wait, answerWait)
	healthy := func() error {
		asking, done := context.WithTimeoutCause(bound, wait, fmt.Errorf("not even to a health check within %s", wait))
		defer done()
		return c.Health(asking)
	}
	go func() {
		late := time.NewTicker(wait)
		defer late.Stop()
		for {
			select {
			case <-bound.Done():
				return
			case <-late.C:
			}
			if err := healthy(); err != nil {
				end(&client.UnreachableError{Where: c.Where(), Sent: true, Err: err})
				return
			}
		}
	}()
	return bound, func() { end(nil) }
}

// serviceError means that the service failed, and may or may not have sent a message.
type serviceError struct {
	sent bool // it may have sent it
	err  error
}

func (u *serviceError) Error() string { return u.err.Error() }
func (u *serviceError) Unwrap() error { return u.err }

// refusal returns an error about the request as it is, and an error about the service
// itself as a *serviceError, after which the files can be used instead.
func refusal(err error) error {
	if p, ok := errors.AsType[*api.Problem](err); ok && !errors.As(err, new(*client.SkewError)) {
		switch p.Code {
		case api.CodeUnauthorized, api.CodeForbidden, api.CodeReadOnly, api.CodeTooMany, api.CodeUnavailable, api.CodeInterrupted:
			return &serviceError{sent: true, err: err}
		}
		return err
	}
	u, unreachable := errors.AsType[*client.UnreachableError](err)
	if unreachable || errors.As(err, new(*client.SkewError)) {
		return &serviceError{sent: !unreachable || u.Sent, err: err}
	}
	return err
}

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
	noted := a.noteHeld(ctx, s.Delivery)
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

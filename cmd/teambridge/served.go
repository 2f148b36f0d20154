package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/doctor"
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
	if pid, moved := doctor.MovedDatabases(a.state, root.Path()); moved != "" {
		if !a.strays {
			a.warn("the service (process %d) is not used: while it ran, %s moved away or replaced in %s; end it, and see: teambridge doctor", pid, moved, a.state)
			a.strays = true
		}
		return nil
	}
	a.debug("asking the service at %s", c.Where())
	return c
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

// send sends a message through the service, else, or if that fails, into the inbox of
// member. It returns what is known even if there is an error.
func (s *sender) send(ctx context.Context, member string, m mail.Message) (mail.Delivered, error) {
	if s.service == nil {
		if s.opts.needsRelay() && (!s.opts.dryRun || s.app.service(s.Team().Root()) == nil) {
			why := "no service runs"
			if _, err := client.Find(s.app.state, s.Team().Root().Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				why = view.Describe(err)
			}
			return mail.Delivered{}, notRelayed(why)
		}
		return s.toInbox(ctx, member, m)
	}
	chosen := m.ID
	m.ID = cmp.Or(m.ID, uuid.NewString())
	d, err := s.viaService(ctx, member, m)
	failure, ok := errors.AsType[*serviceError](err)
	switch {
	case !ok, s.opts.needsRelay() && failure.sent:
		return d, err
	case s.opts.needsRelay():
		// In an inbox it would be a teammate's message, and change no mode.
		return d, notRelayed(view.Describe(err))
	}
	if err := s.fallback(ctx, failure); err != nil {
		return d, err
	}
	if !failure.sent {
		m.ID = chosen
	}
	direct, err := s.toInbox(ctx, member, m)
	if d.State == api.Verified || chosen == "" {
		direct.Deduplicated = d.Deduplicated // not because of what the service did
	}
	return direct, err
}

// viaService sends a message through the service, and waits if asked to. After a
// *serviceError the message can still be put into the inbox, under the same id.
func (s *sender) viaService(ctx context.Context, member string, m mail.Message) (mail.Delivered, error) {
	d := mail.Delivered{Team: s.Team().Name(), Member: member, ID: m.ID, State: api.Failed, Reach: teams.Reachable, Start: time.Now()}
	asking, done := s.app.present(ctx, s.service)
	sent, err := s.service.Send(asking, d.Team, member, d.ID, api.NewMessage{
		Text: m.Text, Summary: m.Summary, Color: m.Color, From: s.opts.from, Force: s.opts.force,
		Mode: json.RawMessage(s.opts.mode), Isolated: s.opts.isolated, Protocol: m.Protocol,
	})
	done()
	if err != nil {
		return d, refusal(err)
	}
	d.ID, d.State, d.Deduplicated, d.Recorded = sent.ID, sent.State, sent.Deduplicated, true
	d.Waited = time.Duration(sent.WaitedMs) * time.Millisecond
	if !sent.Reachable {
		d.Reach = teams.Deliverability(sent.Reach)
	}
	if s.opts.wait == api.Verified {
		return d, nil
	}
	s.app.debug("the service has sent it, and waits")
	wait, cancel := within(ctx, s.opts.timeout, "")
	defer cancel()
	defer s.app.working("waiting until %s has taken the message", member)()
	until := s.service.Settled
	if s.opts.wait == api.Seen {
		until = s.service.Seen
	}
	r, err := until(wait, d.Team, member, d.ID)
	d.Waited = time.Since(d.Start)
	switch {
	case err != nil && ctx.Err() != nil:
		return d, context.Cause(ctx)
	case err != nil && wait.Err() != nil:
		asking, done := context.WithTimeout(ctx, answerWait)
		defer done()
		if last, err := s.service.Receipt(asking, d.Team, member, d.ID); err == nil && last.State == api.Consumed && s.opts.wait == api.Seen {
			return d, s.notSeen(d)
		}
		return d, s.notTaken(wait, d)
	case errors.Is(err, client.ErrUnreachable):
		return d, &serviceError{sent: true, err: err}
	case err != nil:
		return d, refusal(err)
	case r.State == api.Lost:
		return d, api.Decide(api.CodeLost, view.Explain(inbox.ErrLost).Hint, "%s", r.Reason)
	case r.State == api.Unknown:
		if err := s.Team().Exists(); errors.Is(err, teams.ErrTeamGone) {
			return d, err
		}
		return d, api.Decide(api.CodeUnknown, view.Explain(inbox.ErrUnclear).Hint, "%s", r.Reason)
	}
	d.State = s.opts.wait
	return d, nil
}

// fallback makes s write to inboxes itself, after the service has failed.
func (s *sender) fallback(ctx context.Context, why *serviceError) error {
	s.app.debug("going on without the service: %v", why)
	s.service = nil
	if err := s.remember(ctx); err != nil {
		return err
	}
	m, err := mail.New(ctx, s.options(ctx, s.Team(), s.Config()))
	if err == nil {
		s.Sender = m
	}
	return err
}

// unanswerable reports whether one of these members cannot write to the sender's name.
func (s *sender) unanswerable(ctx context.Context, members []string) bool {
	if !slices.ContainsFunc(members, func(m string) bool { return s.Answerable(m) == teams.No }) {
		return false
	}
	if s.service == nil || !slices.ContainsFunc(s.Config().Members, teams.Member.Guest) {
		return true
	}
	// The service has the ledger, and so knows whether one of the guests is us.
	asking, done := s.app.present(ctx, s.service)
	defer done()
	t, err := s.service.Team(asking, s.Team().Name())
	return err == nil && !t.Answerable // it is for a hint
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/doctor"
	"teambridge/status/view"
	"teambridge/teams"
)

// Some things only the service knows: what its agents ask, and why one of them stopped. A
// command that shows such things asks with askService. If no service runs, nothing is missing.
// If one runs and does not answer, the command shows what it knows without it, and then fails
// with [unheard]: status 4. One that goes on, as watch does, warns, and asks again.

// askService lets do ask the service of a Claude directory. answered is false if none runs, or
// with an error: that of do or, if the service cannot be asked, of package client.
func (a *app) askService(ctx context.Context, root *teams.Root, do func(context.Context, *client.Client) error) (answered bool, err error) {
	defer func() { a.unanswered = err }()
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

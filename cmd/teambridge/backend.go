package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/status/client"
	"teambridge/status/doctor"
	"teambridge/status/view"
)

// A backend carries out the operations of a command. It is the service of the Claude directory, if one runs,
// answers, has this version, and is not read-only. Otherwise it works on the files.
//
// Only a service knows the open questions of its agents, and why an agent stopped. If a service runs but cannot
// be used, the backend uses the files, and a command that shows such information fails at its end with
// [backend.serviceError], status 4. A command that keeps running, such as watch, warns.
type backend struct {
	api.Bridge
	service *client.Client // nil: the files are used
	unused  error          // why a running service is not used; nil if it is used, if none runs, or if the files suffice
	idle    string         // with the files: the reason why added relays do not run
}

// answerWait limits the patience with a service: a request that takes longer is followed by a ping, which must
// be answered within the same time.
const answerWait = time.Second

// bridge returns the backend of this command. It chooses it at the first call.
func (a *access) bridge(ctx context.Context) *backend {
	a.choosing.Lock()
	defer a.choosing.Unlock()
	if a.backend == nil { // with --host, it is set already
		c := a.choose(ctx)
		if c.service != nil {
			a.atEnd(func() error { c.service.Close(); return nil })
		}
		if c.unused != nil && !errors.Is(c.unused, client.ErrUnreachable) { // only a person can repair it
			a.warn("%s", view.Describe(c.unused))
		}
		a.backend = c
	}
	return a.backend
}

// choose returns the service of the Claude directory if it can be used, or else the files.
func (a *access) choose(ctx context.Context) *backend {
	files := &backend{Bridge: a.local(), idle: attention.NoService}
	root, err := a.root()
	if err != nil {
		return files // the operation will fail with the same error
	}
	c, err := client.FindWith(a.state, root.Path(), client.Options{Patience: cmp.Or(a.wait, answerWait), Agent: a.agent, Broken: a.connectionBroke})
	if err == nil {
		var v api.ServiceVersion
		if pid, moved := doctor.MovedDatabases(a.state, root.Path()); moved != "" {
			err = fmt.Errorf("the service (process %d) is not used: while it ran, %s moved away or replaced in %s; end it, and see: teambridge doctor", pid, moved, a.state)
		} else if v, err = c.Version(ctx); v.ReadOnly {
			a.debug("the service at %s is read-only", c.Where())
			files.idle = attention.ReadOnly
		} else if err = cmp.Or(err, outdated(c, v)); err == nil {
			a.debug("asking the service at %s", c.Where())
			return &backend{Bridge: c, service: c, idle: attention.SilentService}
		}
		c.Close()
	}
	if _, gone := client.Find(a.state, root.Path()); err != nil && !errors.Is(gone, fs.ErrNotExist) && ctx.Err() == nil {
		a.debug("going on without the service: %v", err)
		files.unused, files.idle = err, attention.SilentService
	}
	return files
}

// outdated returns an error if a service is an earlier version, which lacks some operations of this program.
func outdated(c *client.Client, v api.ServiceVersion) error {
	if v.Operations >= api.Operations {
		return nil
	}
	return &client.SkewError{Where: c.Where(), Reason: "it is teambridge " + v.Version.Version + ", which is an earlier version"}
}

// serviceError is the error of a command that needs information from the service and could not get it. It is
// nil if nothing is missing.
func (c *backend) serviceError() error {
	if c.unused == nil {
		return nil
	}
	return api.Decide(api.CodeTimeout, "see what is wrong with it: teambridge doctor", "%w; "+unknownWithout, c.unused)
}

// unknownWithout says what is unknown without the service.
const unknownWithout = "the questions of the service's agents, and why agents stopped, are unknown"

// serviceError is [backend.serviceError] for a command about one team, or about all if the name is empty. It is
// also nil if the service runs no agent there.
func (a *access) serviceError(ctx context.Context, team string) error {
	err := a.bridge(ctx).serviceError()
	if err == nil {
		return nil
	}
	if root, failed := a.root(); failed == nil {
		if l, failed := a.local().Ledger(ctx); failed == nil && (l == nil || !hasRelays(ctx, l, root, team)) {
			return nil
		}
	}
	return err
}

// warnServiceError is [access.serviceError] for a command that keeps running: it only warns.
func (a *access) warnServiceError(ctx context.Context, team string) {
	if err := a.serviceError(ctx, team); errors.Is(err, client.ErrUnreachable) {
		a.warn("%s", view.Describe(err))
	} else if err != nil { // [access.bridge] has warned why
		a.warn(unknownWithout)
	}
}

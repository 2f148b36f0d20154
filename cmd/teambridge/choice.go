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

// A choice is who does the operations of a command: the service of the Claude directory, if one runs, answers, is of this version, and
// may change things, or else the files.
//
// A service knows more: what its agents ask, and why one of them stopped. If one runs and is not asked, the files are used, and a
// command that shows such things fails at its end with [choice.unheard]: status 4. One that runs until it is ended, as watch does, warns.
type choice struct {
	api.Bridge
	service *client.Client // nil: the files
	why     error          // why a service that runs is not asked; nil: none runs, it is asked, or what it knows is in the files
	idle    string         // why relays that were added do not run, where the files are asked
}

// answerWait is how long a request may take before the service is asked whether it is there, and
// how long that may take.
const answerWait = time.Second

// bridge returns what does the operations of this command, which is chosen once.
func (a *access) bridge(ctx context.Context) *choice {
	a.choosing.Lock()
	defer a.choosing.Unlock()
	if a.choice == nil { // with --host, there is one
		c := a.choose(ctx)
		if c.service != nil {
			a.atEnd(func() error { c.service.Close(); return nil })
		}
		if c.why != nil && !errors.Is(c.why, client.ErrUnreachable) { // to be mended by hand
			a.warn("%s", view.Describe(c.why))
		}
		a.choice = c
	}
	return a.choice
}

// choose looks for the service of the Claude directory.
func (a *access) choose(ctx context.Context) *choice {
	files := &choice{Bridge: a.local(), idle: attention.NoService}
	root, err := a.root()
	if err != nil {
		return files // the operation says why
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
			return &choice{Bridge: c, service: c, idle: attention.SilentService}
		}
		c.Close()
	}
	if _, gone := client.Find(a.state, root.Path()); err != nil && !errors.Is(gone, fs.ErrNotExist) && ctx.Err() == nil {
		a.debug("going on without the service: %v", err)
		files.why, files.idle = err, attention.SilentService
	}
	return files
}

// outdated returns an error if a service is of an earlier version, which has not all operations of this one.
func outdated(c *client.Client, v api.ServiceVersion) error {
	if v.Operations >= api.Operations {
		return nil
	}
	return &client.SkewError{Where: c.Where(), Reason: "it is teambridge " + v.Version.Version + ", which is an earlier version"}
}

// unheard is the error of a command that could not ask the service what only that knows; nil if nothing is missing.
func (c *choice) unheard() error {
	if c.why == nil {
		return nil
	}
	return api.Decide(api.CodeTimeout, "see what is wrong with it: teambridge doctor", "%w; what agents of the service ask, and why they stopped, is not known", c.why)
}

// unheard returns the error for a command about a team, or about all teams if the name is empty. It is nil if the service runs no agent there.
func (a *access) unheard(ctx context.Context, team string) error {
	err := a.bridge(ctx).unheard()
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

// warnUnheard warns of that, in a command that keeps running.
func (a *access) warnUnheard(ctx context.Context, team string) {
	if err := a.unheard(ctx, team); err != nil {
		a.warn("%s", view.Describe(err))
	}
}

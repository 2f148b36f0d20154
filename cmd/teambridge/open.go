package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"time"

	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/status/bridge"
	"teambridge/status/client"
	"teambridge/status/doctor"
	"teambridge/status/view"
)

// Operations are done by the service of the Claude directory, if one runs, or else on the files.
// A service knows more: what its agents ask, and why one of them stopped. If it runs and does not
// answer, the files are used, and a command that shows such things fails at its end with
// [app.unheard]: status 4.

// bridge returns what does the operations of this command, which it chooses once: the service, if
// one runs, answers, and may change things, or else the files.
func (a *app) bridge(ctx context.Context) api.Bridge {
	a.choosing.Lock()
	defer a.choosing.Unlock()
	if a.core == nil {
		a.core = a.local()
		if c := a.findService(ctx); c != nil {
			a.core, a.served = c, c
			a.opened = append(a.opened, func() error { c.Close(); return nil })
		}
	}
	return a.core
}

// findService returns a client of the service that operations are for; nil if there is none.
func (a *app) findService(ctx context.Context) *client.Client {
	root, err := a.root()
	if err != nil {
		return nil // which the operation says
	}
	c, err := client.FindPatient(a.state, root.Path(), cmp.Or(a.wait, answerWait))
	var v api.ServiceVersion
	if err == nil {
		if pid, moved := doctor.MovedDatabases(a.state, root.Path()); moved != "" {
			a.warn("the service (process %d) is not used: while it ran, %s moved away or replaced in %s; end it, and see: teambridge doctor", pid, moved, a.state)
			return nil
		}
		v, err = c.Version(ctx)
	}
	switch {
	case err == nil && v.Operations < api.Operations: // it runs on during an upgrade
		a.warn("the service at %s is an earlier version, and only messages go through it; restart it with this teambridge", c.Where())
		return nil
	case err == nil && !v.ReadOnly:
		a.debug("asking the service at %s", c.Where())
		return c
	case err == nil: // what it knows is in the files
		a.debug("the service at %s is read-only", c.Where())
		return nil
	case errors.Is(err, fs.ErrNotExist), ctx.Err() != nil:
		return nil
	}
	if _, gone := client.Find(a.state, root.Path()); errors.Is(gone, fs.ErrNotExist) {
		return nil // it has just ended
	}
	a.debug("going on without the service: %v", err)
	a.silent, a.silentSince = err, time.Now()
	return nil
}

// unheard is the error of a command that could not ask a service what only that knows of a team,
// or of all teams if the name is empty; nil if none runs, it was asked, or it runs no agent there.
func (a *app) unheard(ctx context.Context, team string) error {
	if a.silent == nil {
		return nil
	}
	if root, err := a.root(); err == nil {
		if l, err := a.local().Ledger(ctx); err == nil && (l == nil || !hasRelays(ctx, l, root, team)) {
			return nil
		}
	}
	return unheard(a.silent)
}

// warnUnheard warns of that, in a command that goes on.
func (a *app) warnUnheard(ctx context.Context, team string) {
	if err := a.unheard(ctx, team); err != nil {
		a.warn("%s", view.Describe(err))
	}
}

// scope is what the flags, the environment and the directory say.
func (a *app) scope() api.Scope {
	s := api.Scope{Team: a.teamName}
	s.Default, _ = a.lookup("TEAMBRIDGE_TEAM")
	s.Dir, _ = a.cwd() // without it, teams are not told apart by it
	return s
}

// meant returns what names such as MEMBER[@TEAM] mean.
func (a *app) meant(ctx context.Context, names ...string) (api.Target, error) {
	to, err := a.bridge(ctx).Target(ctx, a.scope(), names...)
	if err == nil {
		a.chosen = to.Team
		a.debug("team %s", to.Team)
	}
	return to, err
}

// local does operations on the files.
func (a *app) local() *bridge.Local {
	if a.files == nil {
		a.completesState()
		tmux, _ := a.socket("") // of the environment, which has no error
		dir, _ := a.cwd()       // without it, the settings of the project do not count
		a.files = bridge.New(bridge.Options{
			Root: a.root, Ledger: a.ledger, Journal: a.journal, State: a.state, Locker: a.locks(), Tmux: tmux, RecordWithin: cmp.Or(a.wait, journalWait),
			LookupEnv: a.lookup, Dir: dir, AnswerWithin: a.wait,
			Warn: func(err error) { a.warn("%s", view.Describe(err)) }, Debug: a.debug,
			Idle: func() string {
				if a.silent != nil || a.unanswered != nil {
					return attention.SilentService
				}
				return attention.NoService
			},
		})
	}
	return a.files
}

// where is the Claude directory, for messages.
func (a *app) where() string {
	if root, err := a.root(); err == nil {
		return root.Path()
	}
	return "-"
}

// events yields the events of a team, or of all teams if the name is empty, from now on. If the
// service ends meanwhile, the files tell what comes next. The iterator may be used by another
// goroutine than the rest of a.
func (a *app) events(ctx context.Context, team string) iter.Seq2[api.Event, error] {
	a.bridge(ctx)
	return func(yield func(api.Event, error) bool) {
		after := client.Now
		for {
			c, _ := a.bridge(ctx).(*client.Client)
			if c == nil {
				for e, err := range a.local().Events(ctx, team, after) {
					if !yield(e, err) {
						return
					}
				}
				break
			}
			a.debug("following the service")
			for e, err := range c.Stream(ctx, team, after) {
				if err != nil {
					a.debug("the service sends no more events: %v", err)
					break // it is the last one
				}
				if after = e.ID; !yield(e, nil) {
					return
				}
			}
			if ctx.Err() != nil {
				break
			}
			a.choosing.Lock()
			a.core, a.served = a.local(), nil
			a.choosing.Unlock()
		}
		if ctx.Err() != nil {
			yield(api.Event{}, context.Cause(ctx))
		}
	}
}

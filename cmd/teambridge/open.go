package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/status/bridge"
	"teambridge/status/client"
	"teambridge/status/view"
)

// warnError warns of err. For a damaged database, it gives one short warning, which refers to doctor.
func (f *files) warnError(err error) {
	text := view.Describe(err)
	if e, ok := errors.AsType[*ledger.Error](err); ok && errors.Is(err, ledger.ErrCorrupt) {
		if _, again := f.damaged.LoadOrStore(e.Path, true); again {
			return
		}
		_, follows, _ := strings.Cut(err.Error(), e.Error()) // the consequence, such as "; relays are not shown"
		text = fmt.Sprintf("the %s cannot be used: %s is %v (teambridge doctor says what to do)%s", e.Name, e.Path, ledger.ErrCorrupt, follows)
	}
	f.warn("%s", text)
}

// scope returns the team and directory that the flags and the environment select, for resolving names.
func (a *access) scope() api.Scope {
	s := api.Scope{Team: a.teamName}
	s.Default, _ = a.lookup("TEAMBRIDGE_TEAM")
	s.Dir, _ = a.personDir() // without it, it does not help to choose a team
	return s
}

// target resolves names such as MEMBER[@TEAM].
func (a *access) target(ctx context.Context, names ...string) (api.Target, error) {
	return a.targetIn(ctx, a.scope(), names...)
}

// targetToRead is target for commands that change nothing. If no team is alive and none is named, it returns the
// sessions.
func (a *access) targetToRead(ctx context.Context, names ...string) (api.Target, error) {
	s := a.scope()
	s.ToRead = true
	return a.targetIn(ctx, s, names...)
}

func (a *access) targetIn(ctx context.Context, s api.Scope, names ...string) (api.Target, error) {
	to, err := a.bridge(ctx).Target(ctx, s, names...)
	if err == nil {
		a.chosen = to.Team
		a.debug("team %s", to.Team)
		if len(names) > 0 && s.Via == "" {
			a.debug("the way is %s", to.How)
		}
	}
	return to, err
}

// local returns the core that works on the files.
func (a *access) local() *bridge.Local {
	if a.onFiles == nil {
		a.completesState()
		tmux, _ := a.socket("") // from the environment, without an error
		dir, _ := a.cwd()       // without it, settings of the project are ignored
		a.onFiles = bridge.New(bridge.Options{
			Root: a.root, Ledger: a.ledger, Journal: a.journal, State: a.state, Locker: a.locks(), Tmux: tmux, RecordWithin: cmp.Or(a.wait, journalWait),
			LookupEnv: a.lookup, Dir: dir, AnswerWithin: a.wait, Version: build(),
			Warn: a.warnError, Debug: a.debug,
			Idle: func() string {
				a.choosing.Lock()
				defer a.choosing.Unlock()
				if a.backend == nil {
					return attention.NoService
				}
				return a.backend.idle
			},
		})
	}
	return a.onFiles
}

// where returns the Claude directory, or the value of --host, for messages to the person.
func (f *files) where() string {
	if f.there != nil {
		return f.there.name
	}
	if root, err := f.root(); err == nil {
		return root.Path()
	}
	return "-"
}

// events yields the events of a team from now on, or of all teams if the name is empty. They come from the service,
// with a new connection if one breaks, or else from the files. The iterator may be used in another goroutine than a.
func (a *access) events(ctx context.Context, team string) iter.Seq2[api.Event, error] {
	served, events := a.bridge(ctx).service, a.local().Events
	if served != nil {
		events = served.Events
	}
	return func(yield func(api.Event, error) bool) {
		begun := false
		for e, err := range events(ctx, team, client.Now) {
			if err == nil && a.broken {
				a.broken = false
				a.note("connected again")
			}
			if served != nil && err == nil && !begun {
				begun = true
				a.debug("following the service")
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		yield(api.Event{}, context.Cause(ctx))
	}
}

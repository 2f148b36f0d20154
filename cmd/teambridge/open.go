package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/inbox/ledger"
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
// [app.unheard]: status 4. One that goes on, as watch does, warns.

// answerWait is how long a request may take before the service is asked whether it is there, and
// how long that may take.
const answerWait = time.Second

// bridge returns what does the operations of this command, which it chooses once: the service, if
// one runs, answers, and may change things, or else the files.
func (a *app) bridge(ctx context.Context) api.Bridge {
	a.choosing.Lock()
	defer a.choosing.Unlock()
	if a.core == nil { // with --host, there is one
		a.core = a.local()
		a.use(a.findService(ctx))
	}
	return a.core
}

// messenger returns what messages go through: what bridge returns, or a service of an earlier
// version.
func (a *app) messenger(ctx context.Context) api.Bridge {
	b := a.bridge(ctx)
	a.choosing.Lock()
	defer a.choosing.Unlock()
	if a.older != nil {
		return a.older
	}
	return b
}

// found is what was found where a service is looked for.
type found struct {
	served *client.Client // one for operations
	older  *client.Client // one of an earlier version, for messages
	silent error          // why one that runs does not answer
	idle   string         // why relays that were added do not run; "": none runs
}

// use uses what was found. a.choosing is held.
func (a *app) use(f found) {
	a.found = f
	c := cmp.Or(f.served, f.older)
	if f.served != nil {
		a.core = f.served
	}
	if c != nil {
		a.atEnd(func() error { c.Close(); return nil })
	}
}

// leaveService uses the files from now on, because of why.
func (a *app) leaveService(why error) {
	now := found{}
	if errors.Is(why, client.ErrUnreachable) && a.serviceRuns() {
		now = found{silent: why, idle: attention.SilentService}
	}
	a.choosing.Lock()
	defer a.choosing.Unlock()
	a.core = a.local()
	a.use(now)
}

// findService looks for the service of the Claude directory.
func (a *app) findService(ctx context.Context) (f found) {
	root, err := a.root()
	if err != nil {
		return f // which the operation says
	}
	c, err := client.FindWith(a.state, root.Path(), client.Options{Patience: cmp.Or(a.wait, answerWait), Agent: a.agent, Broken: a.connectionBroke})
	var v api.ServiceVersion
	if err == nil {
		defer func() {
			if f.served == nil && f.older == nil {
				c.Close()
			}
		}()
		if pid, moved := doctor.MovedDatabases(a.state, root.Path()); moved != "" {
			a.warnOnce("the service (process %d) is not used: while it ran, %s moved away or replaced in %s; end it, and see: teambridge doctor", pid, moved, a.state)
			return f
		}
		v, err = c.Version(ctx)
	}
	switch {
	case err == nil && v.ReadOnly: // what it knows is in the files
		a.debug("the service at %s is read-only", c.Where())
		f.idle = attention.ReadOnly
	case err == nil && v.Operations < api.Operations: // it runs on during an upgrade
		a.warnOnce("the service at %s is an earlier version, and only messages go through it; restart it with this teambridge", c.Where())
		f.older = c
	case err == nil:
		a.debug("asking the service at %s", c.Where())
		f.served = c
	case errors.Is(err, fs.ErrNotExist), ctx.Err() != nil, !a.serviceRuns():
	default:
		a.debug("going on without the service: %v", err)
		f.silent, f.idle = err, attention.SilentService
	}
	return f
}

// warnOnce warns of a service that is not used, however often it is looked for.
func (a *app) warnOnce(format string, args ...any) {
	a.warned.Do(func() { a.warn(format, args...) })
}

// warnOf warns of err. That a database is damaged is said once and in short: doctor says what to do.
func (a *app) warnOf(err error) {
	text := view.Describe(err)
	if e, ok := errors.AsType[*ledger.Error](err); ok && errors.Is(err, ledger.ErrCorrupt) {
		if _, again := a.damaged.LoadOrStore(e.Path, true); again {
			return
		}
		_, follows, _ := strings.Cut(err.Error(), e.Error()) // what does not work because of it
		text = fmt.Sprintf("the %s cannot be used: %s is %v (teambridge doctor says what to do)%s", e.Name, e.Path, ledger.ErrCorrupt, follows)
	}
	a.warn("%s", text)
}

// serviceRuns reports whether a service runs; it may have ended just now.
func (a *app) serviceRuns() bool {
	root, err := a.root()
	if err == nil {
		_, err = client.Find(a.state, root.Path())
	}
	return !errors.Is(err, fs.ErrNotExist)
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

// unheard is the error of a command that could not ask the service, because of why.
func unheard(why error) error {
	if why == nil {
		return nil
	}
	return fmt.Errorf("%w; what agents of the service ask, and why they stopped, is not known", why)
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
	s.Dir, _ = a.personDir() // without it, teams are not told apart by it
	return s
}

// target returns what names such as MEMBER[@TEAM] mean.
func (a *app) target(ctx context.Context, names ...string) (api.Target, error) {
	to, err := a.bridge(ctx).Target(ctx, a.scope(), names...)
	if err == nil {
		a.chosen = to.Team
		a.debug("team %s", to.Team)
		if a.verbose && len(names) > 0 {
			a.debug("%s", a.wayTo(ctx, to))
		}
	}
	return to, err
}

// anyTeam reports whether no team is named: neither by the flag nor in the environment.
func (a *app) anyTeam() bool {
	s := a.scope()
	return s.Team == "" && s.Default == ""
}

// targetToRead is target for commands that change nothing: where no team lives, and nobody is named, the sessions are meant.
func (a *app) targetToRead(ctx context.Context, names ...string) (api.Target, error) {
	to, err := a.target(ctx, names...)
	if err == nil || len(names) > 0 || !a.anyTeam() || view.Explain(err).Code != api.CodeNotFound {
		return to, err
	}
	some, none := a.bridge(ctx).Target(ctx, api.Scope{Team: api.TeamSessions})
	if none != nil {
		return to, err
	}
	a.chosen = some.Team
	return some, nil
}

// wayTo says how a message reaches a target, and why so.
func (a *app) wayTo(ctx context.Context, to api.Target) string {
	switch to.Way {
	case api.WayInbox:
		return "the way is the inbox or, if the service runs the agent, a prompt: it is in a team; --via session and --via pane are others"
	case api.WayPane:
		return "the way is the pane, which is registered under this name"
	}
	all, _ := a.bridge(ctx).Sessions(ctx) // without an answer, less is said
	for _, s := range all {
		name := to.Member()
		if s.Member != "" || !slices.Contains([]string{s.As, s.Name, strconv.Itoa(s.PID), s.Cwd}, name) && (len(name) < 8 || !strings.HasPrefix(s.Session, name)) {
			continue
		}
		switch s.Way {
		case api.WaySession:
			return "the way is the session's own socket: it is in no team"
		case api.WayHook:
			return "the way is the waiting hook: the session is in no team, and has no socket, or its hook was installed with --unasked"
		case api.WayCodex:
			return "the way is the shared server of Codex"
		}
	}
	return "the way is the session's own socket or, if it has none, its waiting hook: it is in no team"
}

// local does operations on the files.
func (a *app) local() *bridge.Local {
	if a.files == nil {
		a.completesState()
		tmux, _ := a.socket("") // of the environment, which has no error
		dir, _ := a.cwd()       // without it, the settings of the project do not count
		a.files = bridge.New(bridge.Options{
			Root: a.root, Ledger: a.ledger, Journal: a.journal, State: a.state, Locker: a.locks(), Tmux: tmux, RecordWithin: cmp.Or(a.wait, journalWait),
			LookupEnv: a.lookup, Dir: dir, AnswerWithin: a.wait, Version: build(),
			Warn: a.warnOf, Debug: a.debug,
			Idle: func() string {
				a.choosing.Lock()
				defer a.choosing.Unlock()
				return cmp.Or(a.idle, attention.NoService)
			},
		})
	}
	return a.files
}

// where is the Claude directory, for messages.
func (a *app) where() string {
	if a.there != nil {
		return a.there.name
	}
	if root, err := a.root(); err == nil {
		return root.Path()
	}
	return "-"
}

// events yields the events of a team, or of all teams if the name is empty, from now on: those of the service, to which it connects
// again when that is lost, or else what the files tell. The iterator may be used by another goroutine than the rest of a.
func (a *app) events(ctx context.Context, team string) iter.Seq2[api.Event, error] {
	c, served := a.bridge(ctx).(*client.Client)
	events := c.Events
	if !served {
		events = a.local().Events
	}
	return func(yield func(api.Event, error) bool) {
		begun := false
		for e, err := range events(ctx, team, client.Now) {
			if err == nil && a.broken {
				a.broken = false
				a.note("connected again")
			}
			if served && err == nil && !begun {
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

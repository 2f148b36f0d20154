// Package bridge does what people and programs ask for, once for all ways of asking: the
// command line and the service call it, and differ in how they are asked and how they answer.
//
//	to, err := local.Target(ctx, api.Scope{Dir: cwd}, "worker")
//	sent, err := local.Send(ctx, to.Team, to.Member(), "", api.NewMessage{Text: "hello"})
//
// Only target.go decides which team is meant, and whether a name is that of a member or of a pane.
// way.go has what the ways to reach somebody have in common, and each of them is a file: row.go
// with prompt.go, and pane.go.
//
// A [Service] is a Local with what goes on while a service runs: serve.go, follow.go, keep.go and
// rejoin.go.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Options says on which files a [Local] works. Those without a default are needed, but for Service.
//
// Root, Ledger and Journal are asked when something is first needed, so that a message costs
// nothing that it does not need. Root and Ledger return the same each time. Journal opens the
// journal each time; that of a service returns the one that it has.
type Options struct {
	Root    func() (*teams.Root, error)
	Ledger  func(context.Context) (*ledger.Ledger, error)
	Journal func(context.Context) (*journal.Journal, error)
	State   string // the directory of ledger, journal and locks
	Locker  *lockedfile.Locker

	// Tmux is the socket of the tmux server with the panes that config.json names; "" is that
	// of a plain tmux.
	Tmux string

	RecordWithin time.Duration // how long recording what was seen may take; 0: without a limit

	// What a checkup looks at, and where Codex is: the environment in which agents are started, and the project whose
	// settings count, if any. A service may take AnswerWithin to answer; 0: 1 s.
	LookupEnv    func(string) (string, bool)
	Dir          string
	AnswerWithin time.Duration
	Version      api.Version // of this program

	Warn  func(error)                        // gets what was not recorded, or not told
	Debug func(format string, values ...any) // gets what is only for hints

	// Idle says why relays that were added do not run, if no service does; nil:
	// [attention.NoService].
	Idle func() string
}

// Local does operations on the files of this machine. It may be used by several goroutines.
type Local struct {
	opts    Options
	service *Service // whose it is; nil in a command

	accessWithin time.Duration // see endAccess

	mu         sync.Mutex
	recorder   *Recorder        // that runs; nil: none
	journal    *journal.Journal // see recorded
	panes      *pane.Panes
	sent       map[string]*following // what a command has put into inboxes, by [followed]
	typing     map[string]bool       // deliveries that a command types into panes itself
	unreadable string                // the teams that the last look at sessions could not read
	warned     bool                  // that the journal cannot be used

	cache  *attention.Cache // what a command knows of what waits
	source status.Source    // of cache
	idle   string           // why, as cache knows it, relays do not run
	meters meters
}

// New returns a Local. It opens nothing.
func New(opts Options) *Local {
	return &Local{opts: opts, accessWithin: accessWithin, sent: map[string]*following{}, typing: map[string]bool{}}
}

// Ledger opens the ledger, or returns nil if nothing was ever sent, joined or registered.
func (l *Local) Ledger(ctx context.Context) (*ledger.Ledger, error) {
	if l.opts.State == "" {
		return nil, nil
	}
	if _, err := os.Stat(filepath.Join(l.opts.State, "ledger.db")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return l.opts.Ledger(ctx)
}

// OpenPanes returns what types into panes.
func (l *Local) OpenPanes(ctx context.Context) (*pane.Panes, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.panes != nil {
		return l.panes, nil
	}
	root, err := l.opts.Root()
	if err != nil {
		return nil, err
	}
	lg, err := l.opts.Ledger(ctx)
	if err == nil {
		l.panes = pane.New(pane.Options{Root: root, Ledger: lg, State: l.opts.State, Homes: l.homes(), Locker: l.opts.Locker, As: api.Guest, Warn: l.opts.Warn})
	}
	return l.panes, err
}

// homes are where the sessions of programs other than Claude Code are.
func (l *Local) homes() pane.Homes {
	if l.opts.LookupEnv == nil {
		return pane.Homes{}
	}
	return pane.HomesOf(l.opts.LookupEnv)
}

// attend has agents of sessions write to the person until end is called, if they are of that team, or if it is "". A service
// does so all the time.
func (l *Local) attend(ctx context.Context, team string) (end func() error) {
	if l.service != nil || team != "" && team != pane.SessionTeam {
		return func() error { return nil }
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		if ctx.Err() == nil {
			l.opts.Warn(fmt.Errorf("agents of sessions cannot write to you: %w", err))
		}
		return func() error { return nil }
	}
	return panes.Attend(ctx)
}

// Registered returns the registered panes, sorted by name: none if there is no ledger.
func (l *Local) Registered(ctx context.Context) ([]pane.Pane, error) {
	if lg, err := l.Ledger(ctx); err != nil || lg == nil {
		return nil, err
	}
	p, err := l.OpenPanes(ctx)
	if err != nil {
		return nil, err
	}
	return p.List(ctx)
}

// Look returns what is in panes. It looks at all of them at the same time, or shows what the
// service saw last.
func (l *Local) Look(ctx context.Context, list []pane.Pane) ([]pane.View, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if s := l.service; s != nil && !list[0].IsSession() {
		return s.states.Seen(ctx, list)
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return nil, err
	}
	return panes.LookAll(ctx, list)
}

type personKey struct{}

// WithPerson says that a person asks for what is done with ctx.
func WithPerson(ctx context.Context) context.Context {
	return context.WithValue(ctx, personKey{}, true)
}

// Person reports whether a person asks, and not a program: prompts are for persons alone.
// Nobody is one by default.
func Person(ctx context.Context) bool {
	person, _ := ctx.Value(personKey{}).(bool)
	return person
}

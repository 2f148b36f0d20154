// Package local opens the resources of this machine, for package bridge and its parts: the Claude directory,
// the ledger, the journal, panes and sessions.
package local

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
	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Options configure [Files]. Fields without a default are needed.
//
// Root, Ledger and Journal are called at the first use, so that an operation opens only what it needs. Root and
// Ledger return the same value each time. Journal opens the journal for all users; the caller of Open closes it.
type Options struct {
	Root    func() (*teams.Root, error)
	Ledger  func(context.Context) (*ledger.Ledger, error)
	Journal func(context.Context) (*journal.Journal, error)
	State   string // the directory of ledger, journal and locks
	Locker  *lockedfile.Locker

	// Tmux is the socket of the tmux server with the panes that config.json names; "" is the default server.
	Tmux string

	RecordWithin time.Duration // limit for recording an observation; 0: none

	// LookupEnv looks up a variable of the environment in which agents are started. A checkup uses it, and the
	// search for Codex. Dir is the project whose settings a checkup examines; "": none. AnswerWithin is how
	// long a service may take to answer a checkup; 0: 1 s.
	LookupEnv    func(string) (string, bool)
	Dir          string
	AnswerWithin time.Duration
	Version      api.Version // of this program

	Env []string // of agents, as "NAME=value"; nil: the environment of this process

	// Set by a service; nil in a command.
	Panes *pane.Panes                                             // types into panes
	Seen  func(context.Context, []pane.Pane) ([]pane.View, error) // returns panes as of the service's last look

	Warn  func(error)                        // called with failures of recording
	Debug func(format string, values ...any) // called with messages that explain hints

	// Idle returns the reason why added relays do not run, if no service does; nil: [attention.NoService].
	Idle func() string
}

// Files opens the resources of this machine. It is safe for concurrent use.
type Files struct {
	Opts Options

	mu         sync.Mutex
	panes      *pane.Panes
	unreadable string // the error for teams that could not be read at the last search for sessions
}

// Open returns Files. It opens nothing.
func Open(opts Options) *Files {
	if opts.Idle == nil {
		opts.Idle = func() string { return attention.NoService }
	}
	return &Files{Opts: opts, panes: opts.Panes}
}

// Ledger opens the ledger, or returns nil if no message was ever sent, no team joined and no pane registered.
func (l *Files) Ledger(ctx context.Context) (*ledger.Ledger, error) {
	if l.Opts.State == "" {
		return nil, nil
	}
	if _, err := os.Stat(filepath.Join(l.Opts.State, "ledger.db")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return l.Opts.Ledger(ctx)
}

// OpenPanes returns the panes, which type messages.
func (l *Files) OpenPanes(ctx context.Context) (*pane.Panes, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.panes != nil {
		return l.panes, nil
	}
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	lg, err := l.Opts.Ledger(ctx)
	if err == nil {
		l.panes = pane.New(pane.Options{Root: root, Ledger: lg, State: l.Opts.State, Homes: l.Homes(), Locker: l.Opts.Locker, As: api.Guest, Warn: l.Opts.Warn})
	}
	return l.panes, err
}

// Homes returns the directories of sessions of programs other than Claude Code.
func (l *Files) Homes() pane.Homes {
	if l.Opts.LookupEnv == nil {
		return pane.Homes{}
	}
	return pane.HomesOf(l.Opts.LookupEnv)
}

// Attend lets agents of sessions write to the person until end is called: the sessions of one team, or all if
// team is "". A service does this all the time.
func (l *Files) Attend(ctx context.Context, team string) (end func() error) {
	if l.Opts.Panes != nil || team != "" && team != pane.SessionTeam {
		return func() error { return nil }
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		if ctx.Err() == nil {
			l.Opts.Warn(fmt.Errorf("agents of sessions cannot write to you: %w", err))
		}
		return func() error { return nil }
	}
	return panes.Incoming.Attend(ctx)
}

// Registered returns the registered panes, sorted by name. There are none without a ledger.
func (l *Files) Registered(ctx context.Context) ([]pane.Pane, error) {
	if lg, err := l.Ledger(ctx); err != nil || lg == nil {
		return nil, err
	}
	p, err := l.OpenPanes(ctx)
	if err != nil {
		return nil, err
	}
	return p.Registry.List(ctx)
}

// Look returns the views of panes. It looks at all of them concurrently, or returns the service's last look.
func (l *Files) Look(ctx context.Context, list []pane.Pane) ([]pane.View, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if l.Opts.Seen != nil && !list[0].IsSession() {
		return l.Opts.Seen(ctx, list)
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return nil, err
	}
	return panes.Views.LookAll(ctx, list)
}

// OfSessions reports whether a name means the team of the sessions: no real team has the name.
func (l *Files) OfSessions(team string) (bool, error) { return l.Reserved(team, pane.SessionTeam) }

// Reserved reports whether team is the reserved name of the panes or of the sessions, and no real team has it.
func (l *Files) Reserved(team, name string) (bool, error) {
	if team != name {
		return false, nil
	}
	root, err := l.Opts.Root()
	if err != nil {
		return false, err
	}
	t, err := root.Team(team)
	if err == nil {
		return false, t.Close()
	}
	return errors.Is(err, teams.ErrTeamGone) || errors.As(err, new(*teams.NotFoundError)), nil
}

// AnyRoot returns the Claude directory, or nil if there is none. Entries for a directory that is gone can still
// be removed.
func (l *Files) AnyRoot() (*teams.Root, error) {
	root, err := l.Opts.Root()
	if errors.As(err, new(*teams.NoRootError)) {
		return nil, nil
	}
	return root, err
}

// PaneTeam returns the team with a name that has no directory: the team of the registered panes, if there are
// any, the team of the sessions, which always exists, or a team on another machine.
func (l *Files) PaneTeam(ctx context.Context, name string) (t teams.Instance, found bool, err error) {
	if _, _, ok := Elsewhere(name); ok {
		return teams.Instance{Team: name, CreatedAt: ledger.MachineTeamCreated}, true, nil
	}
	if name == pane.SessionTeam {
		return teams.Instance{Team: name, CreatedAt: ledger.SessionTeamCreated}, true, nil
	}
	list, err := l.Registered(ctx)
	if name != pane.Team || err != nil || len(list) == 0 {
		return t, false, err
	}
	return teams.Instance{Team: name, CreatedAt: list[0].CreatedAt}, true, nil
}

// Elsewhere splits the name of a team on another machine.
func Elsewhere(name string) (team, machine string, ok bool) {
	team, machine = teams.Split(name)
	return team, machine, machine != ""
}

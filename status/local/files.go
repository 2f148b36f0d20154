// Package local opens what is on this machine, for the core and each part of it: the Claude directory, the ledger, the journal, panes and
// sessions.
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

// Options says on which files [Files] are. Those without a default are needed.
//
// Root, Ledger and Journal are asked when something is first needed, so that a message costs
// nothing that it does not need. Root and Ledger return the same each time. Journal opens the
// journal, for all that needs it, and whoever gave it closes it.
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

	Env []string // of agents, as "NAME=value"; nil: that of this process

	// What a service has; nil in a command.
	Panes *pane.Panes                                             // what types into panes
	Seen  func(context.Context, []pane.Pane) ([]pane.View, error) // what is in panes, as it was seen last

	Warn  func(error)                        // gets what was not recorded, or not told
	Debug func(format string, values ...any) // gets what is only for hints

	// Idle says why relays that were added do not run, if no service does; nil:
	// [attention.NoService].
	Idle func() string
}

// Files opens what is on this machine: the Claude directory, the ledger, panes and sessions. It may be used by several goroutines.
type Files struct {
	Opts Options

	mu         sync.Mutex
	panes      *pane.Panes
	unreadable string // the teams that the last look at sessions could not read
}

// Open returns Files. It opens nothing.
func Open(opts Options) *Files {
	if opts.Idle == nil {
		opts.Idle = func() string { return attention.NoService }
	}
	return &Files{Opts: opts, panes: opts.Panes}
}

// Ledger opens the ledger, or returns nil if nothing was ever sent, joined or registered.
func (l *Files) Ledger(ctx context.Context) (*ledger.Ledger, error) {
	if l.Opts.State == "" {
		return nil, nil
	}
	if _, err := os.Stat(filepath.Join(l.Opts.State, "ledger.db")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return l.Opts.Ledger(ctx)
}

// OpenPanes returns what types into panes.
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

// Homes are where the sessions of programs other than Claude Code are.
func (l *Files) Homes() pane.Homes {
	if l.Opts.LookupEnv == nil {
		return pane.Homes{}
	}
	return pane.HomesOf(l.Opts.LookupEnv)
}

// Attend has agents of sessions write to the person until end is called, if they are of that team, or if it is "". A service
// does so all the time.
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

// Registered returns the registered panes, sorted by name: none if there is no ledger.
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

// Look returns what is in panes. It looks at all of them at the same time, or shows what the
// service saw last.
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

// OfSessions reports whether a name means the team of the sessions, and no real team.
func (l *Files) OfSessions(team string) (bool, error) { return l.Reserved(team, pane.SessionTeam) }

// Reserved reports whether a name is the reserved one, of the panes or of the sessions, and no real team has it.
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

// AnyRoot returns the Claude directory, or nil if there is none: what was added for one that is
// gone can still be removed.
func (l *Files) AnyRoot() (*teams.Root, error) {
	root, err := l.Opts.Root()
	if errors.As(err, new(*teams.NoRootError)) {
		return nil, nil
	}
	return root, err
}

// PaneTeam returns the team without a directory that has a name: that of the registered panes, if there are some, that of
// the sessions, which there always is, or one on another machine.
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

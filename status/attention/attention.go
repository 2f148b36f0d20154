// Package attention knows what waits for a person, and what every agent does. It reads files,
// ledger and journal, which others fill, and starts nothing.
//
//	c := attention.New(attention.Options{Root: root, State: stateDir, Source: source, Panes: panes})
//	list, err := c.Attention(ctx, "") // of all teams
//
// A [Cache] reads again only what may have changed, so that it can be asked often. In a service, it
// also asks the fleet why relays do not run and what their agents ask, and a [Watch] what panes show: every 2 s it asks tmux
// for all screens in two calls, and looks closely at those that have changed. So a tmux that does not answer delays no
// reader.
//
// What waits comes from relays (open questions, held messages, deliveries that failed), from inboxes of the person, from
// the journal (messages that are lost or unknown, questions of members to their lead), from status words (an agent that
// waits at its terminal, a failed turn, a lead that is gone, a team that is idle), from panes (dialogs, drafts that hold a
// message for 2 minutes, finished tasks), and from what has stopped: agents that work without a sign of progress,
// and pairs that only answer each other.
//
// The id of each contains what it is about and when it began, so it stays the same while the same thing waits. What was
// dismissed is remembered by that id in the ledger.
package attention

import (
	"cmp"
	"context"
	"os"
	"sync"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/fleet"
	"teambridge/relay/pane"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// Why a relay that was added does not run, where no fleet does.
const (
	NoService     = "no service runs"
	SilentService = "the service does not answer"
	ReadOnly      = "the service is read-only"
)

// Options says what a [Cache] reads. Root is needed.
type Options struct {
	Root  *teams.Root
	State string // the directory of ledger, journal and locks

	// Without its ledger, no relays and panes are known; without either, nothing waits.
	status.Source
	Panes *pane.Panes // without a ledger, only sessions are known

	Fleet *fleet.Fleet // that runs the relays; nil: none does
	Idle  string       // why no relay runs, if there is no fleet
	Watch *Watch       // that looks at panes; nil: none does

	// Narrow has only the team read that was asked about last: for a cache that one command asks.
	Narrow bool

	// Behind is how many changes of the journal since the last look are read one by one; for more,
	// all teams are read again. 0 is 2000.
	Behind int64

	// TasksTold says that [Cache.TasksChanged] is called with each list of tasks that changes.
	TasksTold bool

	Changed func() // called when a snapshot has changed; may be nil
}

// Cache keeps the state of all teams. A team is read again if the journal has news of it, its
// config.json was written, its lead started or ended, a process of its members says something new,
// or a state has ended by time alone. Its relays are read again if the ledger has news of them, or
// one of them says or does something that the ledger does not have. Otherwise a refresh only looks
// at files and at the versions of the databases. It may be used by several goroutines.
type Cache struct {
	opts Options

	reporting sync.Mutex
	reported  map[string]bool // the teams whose relays have reported something since the last refresh

	listsChanged map[string]bool // lists of tasks, since then

	mu            sync.Mutex
	only          string                 // the team that is read; empty: all
	entries       map[string]*cachedTeam // by team
	seq           int64                  // the last change of the journal that entries have
	list          []api.Team             // as of the last refresh, in order
	fresh         time.Time              // when it was refreshed
	folder        os.FileInfo            // of the processes' files; nil if there is none
	ledgerVersion string                 // when relays was read
	relays        map[string]teamRelays  // by team

	lists map[string]taskList // of tasks, by name; without TasksTold none

	ledgerNews int           // how often the ledger was read again
	registered []ledger.Pane // and those of members

	untold    bool            // a change was not told, because a refresh failed after it
	dismissed map[string]bool // ids of what was dismissed
}

// New returns a Cache. It reads nothing yet.
func New(opts Options) *Cache {
	opts.Behind = cmp.Or(opts.Behind, 2000)
	if opts.Changed == nil {
		opts.Changed = func() {}
	}
	return &Cache{opts: opts}
}

// Relayed says that a relay of a team has reported something.
func (c *Cache) Relayed(team string) {
	c.reporting.Lock()
	defer c.reporting.Unlock()
	if c.reported == nil {
		c.reported = map[string]bool{}
	}
	c.reported[team] = true
}

// Refresh reads what may have changed, and tells it.
func (c *Cache) Refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refresh(ctx)
}

// Snapshot returns the state of one team, or of all teams if the name is empty. It may be as old
// as that.
func (c *Cache) Snapshot(ctx context.Context, team string, old time.Duration) (api.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.fresh) > old {
		if err := c.look(ctx, team); err != nil {
			return api.Snapshot{}, err
		}
	}
	return c.current(team), nil
}

// Attention returns what waits for a person now, the oldest first: in one team, or in all if the
// name is empty.
func (c *Cache) Attention(ctx context.Context, team string) ([]api.Attention, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.look(ctx, team); err != nil {
		return nil, err
	}
	return c.current(team).Attention, nil
}

// Dismiss hides what waits under an id, until it changes, and returns it; see [api.Bridge].
func (c *Cache) Dismiss(ctx context.Context, id string) (a api.Attention, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.look(ctx, ""); err != nil {
		return a, err
	}
	e, a := c.find(id)
	switch {
	case e == nil:
		return a, api.Decide(api.CodeNotFound, "nothing was changed; list what waits with: teambridge inbox", "nothing waits under the id %.200q", id)
	case !a.Dismissable:
		return a, api.Decide(api.CodeInvalid, "nothing was changed; "+a.Do, "it cannot be dismissed: %s", a.What)
	}
	if err := view.Dismiss(ctx, c.opts.Ledger, c.opts.Root.Path(), a); err != nil {
		return a, err
	}
	c.dismissed[a.ID] = true
	c.opts.Changed()
	return a, c.show(e)
}

// look refreshes the cache for a question about a team, or about all if the name is empty. c.mu is
// held.
func (c *Cache) look(ctx context.Context, team string) error {
	if c.opts.Ledger == nil || c.opts.Journal == nil {
		return c.lookAtSessions(ctx, team) // all else has to be recorded
	}
	if c.opts.Narrow {
		c.only = team
	}
	return c.refresh(ctx)
}

// lookAtSessions reads what is known of the sessions in no team. c.mu is held.
func (c *Cache) lookAtSessions(ctx context.Context, team string) error {
	if team != "" && team != pane.SessionTeam {
		return nil
	}
	e, again, err := c.readPanes(ctx, pane.SessionTeam, time.Now())
	if err != nil || e == nil {
		return err
	}
	c.entries, c.list = map[string]*cachedTeam{pane.SessionTeam: e}, []api.Team{e.team}
	if !again {
		return nil
	}
	return c.show(e)
}

// Status returns what each agent of a team does now. It reads the team, whatever the cache has.
func (c *Cache) Status(ctx context.Context, t *teams.Team) ([]api.Status, error) {
	relays, asked, err := c.RelaysOf(ctx, t)
	if err != nil {
		return nil, err
	}
	return view.Statuses(ctx, c.opts.Source, t, relays, asked, time.Now())
}

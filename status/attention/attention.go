// Package attention keeps the state of every agent, and the list of what waits for a person. It only reads
// files, ledger and journal. It starts nothing.
//
//	c := attention.New(attention.Options{Root: root, State: stateDir, Source: source, Panes: panes})
//	list, err := c.Attention(ctx, "") // of all teams
//
// A [Cache] reads again only what may have changed, so frequent requests are cheap. In a service, it also gets
// from the fleet why relays do not run and what their agents ask, and from a [Watch] the contents of panes. The
// Watch asks tmux for all screens every 2 s, with two calls, and reads details only of screens that have
// changed. Readers never wait for tmux.
//
// Items that wait for a person come from:
//   - relays: open questions, held messages, failed deliveries;
//   - inboxes of the person;
//   - the journal: messages that are lost or unknown, questions of members to their lead;
//   - states: an agent that waits at its terminal, a failed turn, a lead that is gone, an idle team;
//   - panes: dialogs, drafts that hold a message for 2 minutes, finished tasks;
//   - missing progress: agents that work without a sign of it, and pairs that only answer each other.
//
// The id of an item contains its subject and the time when it began, so it stays the same for as long as the
// item waits. The ledger keeps the ids of dismissed items.
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

// Reasons why a relay that was added does not run, if there is no fleet.
const (
	NoService     = "no service runs"
	SilentService = "the service does not answer"
	ReadOnly      = "the service is read-only"
)

// Options are the sources of a [Cache]. Root is needed.
type Options struct {
	Root  *teams.Root
	State string // the directory of ledger, journal and locks

	// Without a ledger, relays and panes are unknown. Without a ledger and a journal, nothing waits.
	status.Source
	Panes *pane.Panes // without a ledger, it finds only sessions

	Fleet *fleet.Fleet // runs the relays; nil: no process does
	Idle  string       // why no relay runs, without a fleet
	Watch *Watch       // looks at panes; nil: nothing does

	// Narrow limits reading to the team of the last request. It is for a cache that serves one command.
	Narrow bool

	// Behind is the largest number of new journal changes that are read one by one. If there are more, all
	// teams are read again. 0 means 2000.
	Behind int64

	// TasksNotified promises a call of [Cache.TasksChanged] for each task list that changes.
	TasksNotified bool

	Changed func() // called when a snapshot has changed; may be nil
}

// Cache keeps the state of all teams. It reads a team again if the journal has news of it, if its config.json
// was written, if its lead started or ended, if the process of a member wrote a new status, or if a state has
// expired. It reads a team's relays again if the ledger has news of them, or if one of them reports something
// that the ledger does not have. Otherwise a refresh checks only files and the versions of the databases. A
// Cache is safe for concurrent use.
type Cache struct {
	*taskLists
	relayStates
	paneViews
	opts *Options

	reporting sync.Mutex
	reported  map[string]bool // teams whose relays have reported since the last refresh

	mu            sync.Mutex
	only          string                 // the only team to read; empty: all
	entries       map[string]*cachedTeam // by team
	seq           int64                  // the last journal change that entries include
	list          []api.Team             // as of the last refresh, in order
	fresh         time.Time              // when it was refreshed
	folder        os.FileInfo            // the directory of process files; nil if there is none
	ledgerVersion string                 // when relays were read
	ofLedger      map[string]teamRelays  // relays, by team

	ledgerNews int           // how often the ledger was read again
	registered []ledger.Pane // registered panes, and panes of members

	untold    bool            // streams have not been notified of a change, because a refresh failed after it
	dismissed map[string]bool // ids of dismissed items
}

// New returns a Cache. It reads nothing yet.
func New(opts Options) *Cache {
	opts.Behind = cmp.Or(opts.Behind, 2000)
	if opts.Changed == nil {
		opts.Changed = func() {}
	}
	return &Cache{
		opts: &opts, relayStates: relayStates{&opts}, paneViews: paneViews{&opts},
		taskLists: &taskLists{opts: &opts, known: map[string]taskList{}, news: map[string]bool{}},
	}
}

// Relayed reports news from a relay of a team.
func (c *Cache) Relayed(team string) {
	c.reporting.Lock()
	defer c.reporting.Unlock()
	if c.reported == nil {
		c.reported = map[string]bool{}
	}
	c.reported[team] = true
}

// Refresh reads what may have changed, and notifies streams of changes.
func (c *Cache) Refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refresh(ctx)
}

// Snapshot returns the state of one team, or of all teams if the name is empty. It refreshes a state that is older
// than maxAge.
func (c *Cache) Snapshot(ctx context.Context, team string, maxAge time.Duration) (api.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.fresh) > maxAge {
		if err := c.look(ctx, team); err != nil {
			return api.Snapshot{}, err
		}
	}
	return c.current(team), nil
}

// Attention returns what waits for a person now, the oldest first. An empty name means all teams.
func (c *Cache) Attention(ctx context.Context, team string) ([]api.Attention, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.look(ctx, team); err != nil {
		return nil, err
	}
	return c.current(team).Attention, nil
}

// Dismiss hides the item with an id until the item changes, and returns it; see [api.Bridge].
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
		return a, api.Decide(api.CodeInvalid, "nothing was changed; "+a.AtShell(), "it cannot be dismissed: %s", a.What)
	}
	if err := view.Dismiss(ctx, c.opts.Ledger, c.opts.Root.Path(), a); err != nil {
		return a, err
	}
	c.dismissed[a.ID] = true
	c.opts.Changed()
	return a, c.show(e)
}

// look refreshes the cache for a request about one team, or about all if the name is empty. c.mu is held.
func (c *Cache) look(ctx context.Context, team string) error {
	if c.opts.Ledger == nil || c.opts.Journal == nil {
		return c.lookAtSessions(ctx, team) // other agents are known only from records
	}
	if c.opts.Narrow {
		c.only = team
	}
	return c.refresh(ctx)
}

// lookAtSessions reads the sessions in no team. c.mu is held.
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

// Status returns the current state of each agent of a team. It always reads the team, even if the cache has it.
func (c *Cache) Status(ctx context.Context, t *teams.Team) ([]api.Status, error) {
	relays, asked, err := c.RelaysOf(ctx, t)
	if err != nil {
		return nil, err
	}
	return view.Statuses(ctx, c.opts.Source, t, relays, asked, time.Now())
}

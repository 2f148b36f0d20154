package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// statusCache keeps the state of all teams for the streams of events. A team is read
// again if the journal has news of it, its config.json was written, its lead started or
// ended, a process of its members says something new, or a state has ended by time alone.
type statusCache struct {
	*Server
	source  status.Source
	only    string        // the team that is read; empty: all
	changed *hub          // the snapshot has changed
	dirty   chan struct{} // something may have changed that is not in the journal

	mu      sync.Mutex
	entries map[string]*cachedTeam // by team
	seq     int64                  // the last change of the journal that entries have
	list    []api.Team             // as of the last refresh, in order
	waits   []api.Attention        // what waits for a person because of relays
	digest  string                 // the last snapshot that streams were told of, as JSON
	fresh   time.Time              // when it was refreshed
	folder  os.FileInfo            // of the processes' files; nil if there is none
}

// cachedTeam is one team as it was last read.
type cachedTeam struct {
	team      api.Team
	known     []status.Known
	states    []api.Status           // what known and the relays say
	processes map[string]os.FileInfo // the files of its processes, by path
	relays    int                    // of its members
	relayNews bool                   // a relay has done something since
	config    os.FileInfo
	lead      *teams.LeadProcess
	leadState teams.Liveness // of lead
	due       time.Time      // when a state ends by time alone; zero if none does
	stale     bool           // it has to be read again

	messageWaits []api.Attention // what waits for a person, because of its messages
	waits        []api.Attention // the same, and because of its states
}

// leadInterval is how often a team is read of which no event tells that its lead, or
// another process, ends.
const leadInterval = time.Minute

func (c *statusCache) look() { signal(c.dirty) }

// run refreshes the cache while there are streams.
func (c *statusCache) run(ctx context.Context) error {
	news, done := c.news.subscribe()
	defer done()
	return loop(ctx, news, c.dirty, c.limits.tick, func() {
		if c.changed.size() == 0 {
			return
		}
		c.mu.Lock()
		err := c.refresh(ctx)
		c.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			c.log.Warn("the teams cannot be listed", "err", view.Describe(err))
		}
		// Changes in quick succession become one.
		select {
		case <-ctx.Done():
		case <-time.After(c.limits.gather):
		}
	})
}

// snapshot returns the state of one team, or of all teams if the name is empty.
func (c *statusCache) snapshot(ctx context.Context, team string) (api.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.fresh) > c.limits.gather {
		if err := c.refresh(ctx); err != nil {
			return api.Snapshot{}, err
		}
	}
	return c.current(team), nil
}

// current returns the snapshot as of the last refresh. c.mu is held.
func (c *statusCache) current(team string) api.Snapshot {
	s := api.Snapshot{Teams: []api.Team{}, Status: []api.Status{}, Attention: []api.Attention{}}
	for _, t := range c.list {
		if team == "" || t.Team == team {
			s.Teams = append(s.Teams, t)
			s.Status = append(s.Status, c.entries[t.Team].states...)
			s.Attention = append(s.Attention, c.entries[t.Team].waits...)
		}
	}
	failed := map[string]bool{} // messages that are waited for by their deliveries, not their receipts
	for _, a := range c.waits {
		if team == "" || a.Team == team {
			s.Attention = append(s.Attention, a)
			failed[a.Team+"\x00"+a.Message] = a.Kind == api.WaitsLost
		}
	}
	s.Attention = slices.DeleteFunc(s.Attention, func(a api.Attention) bool {
		receipt := a.Relay == "" && (a.Kind == api.WaitsLost || a.Kind == api.WaitsUnknown)
		return receipt && failed[a.Team+"\x00"+a.Message]
	})
	slices.SortStableFunc(s.Attention, func(a, b api.Attention) int {
		switch {
		case a.Since == nil || b.Since == nil:
			return cmp.Compare(sinceUnknown(a), sinceUnknown(b))
		}
		return a.Since.Compare(*b.Since)
	})
	return s
}

// sinceUnknown sorts what has waited for an unknown time last.
func sinceUnknown(a api.Attention) int {
	if a.Since == nil {
		return 1
	}
	return 0
}

// refresh reads what may have changed, and tells streams if it has. c.mu is held.
func (c *statusCache) refresh(ctx context.Context) error {
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	listings, err := c.opts.Root.Teams()
	if err != nil {
		return err
	}
	now := time.Now()
	c.lookForProcesses()
	entries := map[string]*cachedTeam{}
	list := make([]api.Team, 0, len(listings))
	for _, l := range listings {
		if c.only != "" && l.Name != c.only {
			continue
		}
		e := c.entries[l.Name]
		if e == nil || !c.upToDate(e, l, now) {
			if e, err = c.read(ctx, l, now); err != nil {
				return err
			}
		} else if e.relayNews || e.relays > 0 {
			// No event tells that a relay was killed. Only the ledger is read for this.
			_, err := withTeam(c.opts.Root, l.Name, func(t *teams.Team) (any, error) { return nil, c.readRelays(ctx, e, t, now) })
			if ctx.Err() != nil {
				return ctx.Err()
			}
			e.stale = err != nil // the next refresh shows the problem
		}
		entries[l.Name] = e
		list = append(list, e.team)
	}
	waits, err := c.relayWaits(ctx)
	if err != nil {
		return err
	}
	c.entries, c.list, c.waits, c.fresh = entries, list, waits, now
	digest, err := json.Marshal(c.current(""))
	if err != nil {
		return err
	}
	if c.digest != string(digest) {
		c.digest = string(digest)
		c.changed.tell()
	}
	return nil
}

// catchUp marks the teams that have changes in the journal as stale.
func (c *statusCache) catchUp(ctx context.Context) error {
	const page = 50
	if len(c.entries) == 0 { // all teams will be read; a journal of 200,000 changes takes seconds
		var err error
		c.seq, err = c.source.Journal.Last(ctx)
		return err
	}
	for {
		list, err := c.source.Journal.Changes(ctx, c.seq, page)
		if errors.Is(err, journal.ErrPruned) {
			for _, e := range c.entries {
				e.stale = true
			}
			c.seq, err = c.source.Journal.Last(ctx)
			return err
		}
		if err != nil {
			return err
		}
		for _, change := range list {
			if e := c.entries[change.Message.Team.Team]; e != nil && change.Message.Root == c.opts.Root.Path() {
				e.stale = true
			}
			if e := c.entries[change.Envelope.Team.Team]; e != nil && change.Envelope.Root == c.opts.Root.Path() &&
				(change.Envelope.Kind == "turn-start" || change.Envelope.Kind == "turn-end") {
				e.stale = true // what comes in between only keeps a turn alive, which e.due looks for
			}
			if e := c.entries[change.Receipt.Team]; e != nil && change.Receipt.Root == c.opts.Root.Path() {
				e.stale = true
			}
			if e := c.entries[change.RelayEvent.Team.Team]; e != nil && change.RelayEvent.Root == c.opts.Root.Path() {
				e.relayNews = true
			}
			c.seq = change.Seq
		}
		if len(list) < page {
			return nil
		}
	}
}

// upToDate reports whether e does not have to be read again.
func (c *statusCache) upToDate(e *cachedTeam, l teams.Listing, now time.Time) bool {
	if e.stale || e.config == nil || l.Orphan || l.Err != nil || !e.due.IsZero() && !now.Before(e.due) {
		return false
	}
	for path, was := range e.processes {
		if info, _ := os.Stat(path); !unchanged(was, info) {
			return false
		}
	}
	info, err := os.Stat(configPath(c.opts.Root, l.Name))
	return err == nil && unchanged(info, e.config) && e.lead.Liveness() == e.leadState
}

// lookForProcesses marks all teams as stale if a process has started or ended.
func (c *statusCache) lookForProcesses() {
	info, _ := os.Stat(filepath.Join(c.opts.Root.Path(), "sessions"))
	if !unchanged(c.folder, info) {
		for _, e := range c.entries {
			e.stale = true
		}
	}
	c.folder = info
}

func configPath(root *teams.Root, team string) string {
	return filepath.Join(root.Path(), "teams", team, "config.json")
}

// read reads a team. Problems with its files are part of the result.
func (c *statusCache) read(ctx context.Context, l teams.Listing, now time.Time) (*cachedTeam, error) {
	e := &cachedTeam{team: api.Team{Team: l.Name, LeadState: teams.Unknown.String()}, states: []api.Status{}}
	if l.Orphan || l.Err != nil {
		var err error
		e.team, err = view.Listed(ctx, c.opts.Root, l)
		return e, err
	}
	// Before the team is read, so that a change in the meantime is noticed.
	info, _ := os.Stat(configPath(c.opts.Root, l.Name))
	_, err := withTeam(c.opts.Root, l.Name, func(t *teams.Team) (any, error) { return nil, c.readTeam(ctx, e, t, now) })
	if ctx.Err() != nil {
		return nil, ctx.Err() // also if it ended just after the team was read
	}
	if err != nil {
		e.states, e.team.Problem = []api.Status{}, view.Describe(err)
		return e, nil
	}
	e.config = info
	for _, s := range e.states {
		if s.State == api.StateActive {
			e.dueAt(s.Since.Add(status.IdleAfter))
		}
		if end := s.Heard.Add(status.IdleAfter); s.Word == api.WordWorking && end.After(now) {
			e.dueAt(end)
		}
	}
	return e, nil
}

// dueAt has e read again at that time, or before.
func (e *cachedTeam) dueAt(at time.Time) {
	if e.due.IsZero() || at.Before(e.due) {
		e.due = at
	}
}

// readTeam reads the config, the states and the relays of a team.
func (c *statusCache) readTeam(ctx context.Context, e *cachedTeam, t *teams.Team, now time.Time) error {
	config, err := t.Config(ctx)
	if err != nil {
		return err
	}
	e.lead, e.leadState = config.LeadProcess, config.LeadProcess.Liveness()
	e.team = view.Team(t, config, now)
	e.processes = map[string]os.FileInfo{}
	for _, p := range t.Processes(config) {
		e.processes[p.Path], _ = os.Stat(p.Path) // before known is read
	}
	if e.lead == nil && e.team.LeadState != teams.Unknown.String() || len(e.processes) > 0 {
		e.due = now.Add(leadInterval)
	}
	if e.known, err = view.Known(ctx, c.source, t, now); err != nil {
		return err
	}
	if e.messageWaits, err = c.teamWaits(ctx, t, config, e); err != nil {
		return err
	}
	return c.readRelays(ctx, e, t, now)
}

func (c *statusCache) readRelays(ctx context.Context, e *cachedTeam, t *teams.Team, now time.Time) error {
	e.relayNews = false // what comes while they are read counts again
	relays, asked, err := c.relaysOf(ctx, t)
	if err != nil {
		return err
	}
	e.relays = len(relays)
	e.states = view.Decided(e.known, relays, asked, now)
	e.waits = append(slices.Clip(e.messageWaits), e.stateWaits()...)
	return nil
}

package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// statusCache keeps the state of all teams and their agents for the streams of
// events. A team is read again if the journal has news of it, its config.json was
// written, its lead started or ended, or a state has ended by time alone.
type statusCache struct {
	root    *teams.Root
	source  status.Source
	known   knownRelays
	limits  limits
	news    *hub          // the journal has more
	changed *hub          // the snapshot has changed
	dirty   chan struct{} // something may have changed that the journal does not have
	log     *slog.Logger

	mu      sync.Mutex
	entries map[string]*cachedTeam // by team
	seq     int64                  // the last change of the journal that entries have
	list    []api.Team             // as of the last refresh, in order
	digest  string                 // the last snapshot that streams were told of, as JSON
	fresh   time.Time              // when it was refreshed
}

// cachedTeam is one team as it was last read.
type cachedTeam struct {
	team   api.Team
	states []api.Status
	relays int // of its members
	config os.FileInfo
	lead   *teams.LeadProcess
	led    teams.Liveness // of lead
	due    time.Time      // when a state ends by time alone; zero if none does
	stale  bool           // it has to be read again
	moved  bool           // a relay has done something
}

// knownRelays returns the relays of a team by member.
type knownRelays = func(context.Context, *teams.Team) (map[string]*api.Relay, error)

// leadAgain is the interval at which a team is read again whose lead does not record
// its process, because nothing tells when such a lead ends.
const leadAgain = time.Minute

func newStatusCache(root *teams.Root, source status.Source, known knownRelays, limits limits, news *hub, log *slog.Logger) *statusCache {
	return &statusCache{
		root: root, source: source, known: known, limits: limits, news: news, changed: newHub(), dirty: make(chan struct{}, 1), log: log,
		entries: map[string]*cachedTeam{},
	}
}

// look tells the cache that something may have changed.
func (b *statusCache) look() { signal(b.dirty) }

// run refreshes the cache while there are streams, and tells them when the snapshot
// changes.
func (b *statusCache) run(ctx context.Context) error {
	news, done := b.news.subscribe()
	defer done()
	tick := time.NewTicker(b.limits.tick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		case <-b.dirty:
		case <-tick.C:
		}
		if b.changed.size() == 0 {
			continue
		}
		if err := b.refresh(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn("the teams cannot be listed", "err", view.Describe(err))
		}
		// Changes that follow each other closely become one.
		select {
		case <-ctx.Done():
		case <-time.After(b.limits.gather):
		}
	}
}

// snapshot returns the state of one team, or of all teams if the name is empty.
func (b *statusCache) snapshot(ctx context.Context, team string) (api.Snapshot, error) {
	b.mu.Lock()
	old := time.Since(b.fresh) > b.limits.gather
	b.mu.Unlock()
	if old {
		if err := b.refresh(ctx); err != nil {
			return api.Snapshot{}, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := api.Snapshot{Teams: []api.Team{}, Status: []api.Status{}}
	for _, t := range b.list {
		if team != "" && t.Team != team {
			continue
		}
		s.Teams = append(s.Teams, t)
		if e := b.entries[t.Team]; e != nil {
			s.Status = append(s.Status, e.states...)
		}
	}
	return s, nil
}

// refresh reads what may have changed, and tells streams if it has.
func (b *statusCache) refresh(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.catchUp(ctx); err != nil {
		return err
	}
	listings, err := b.root.Teams()
	if err != nil {
		return err
	}
	now := time.Now()
	there := map[string]bool{}
	list := make([]api.Team, 0, len(listings))
	for _, l := range listings {
		there[l.Name] = true
		e := b.entries[l.Name]
		if e == nil || !b.same(e, l, now) {
			if e, err = b.examine(ctx, l, now); err != nil {
				return err
			}
			b.entries[l.Name] = e
		} else if e.moved || e.relays > 0 {
			// Nothing tells when a relay was killed. Only the ledger is read for that.
			if err := b.relays(ctx, e, l.Name); err != nil {
				if ctx.Err() != nil {
					return err
				}
				e.stale = true // the next refresh says what is wrong
			}
		}
		list = append(list, e.team)
	}
	for name := range b.entries {
		if !there[name] {
			delete(b.entries, name)
		}
	}
	b.list, b.fresh = list, now
	states := [][]api.Status{}
	for _, t := range list {
		states = append(states, b.entries[t.Team].states)
	}
	digest, err := json.Marshal([]any{list, states})
	if err != nil {
		return err
	}
	if b.digest != string(digest) {
		b.digest = string(digest)
		b.changed.tell()
	}
	return nil
}

// catchUp marks the teams that have changes in the journal as stale.
func (b *statusCache) catchUp(ctx context.Context) error {
	const page = 50
	for {
		list, err := b.source.Journal.Changes(ctx, b.seq, page)
		if errors.Is(err, journal.ErrPruned) {
			for _, e := range b.entries {
				e.stale = true
			}
			b.seq, err = b.source.Journal.Last(ctx)
			return err
		}
		if err != nil {
			return err
		}
		for _, c := range list {
			switch e := b.entries[c.Message.Team.Team]; {
			case e != nil && c.Message.Root == b.root.Path():
				e.stale = true
			case c.Kind == journal.Relaying && c.Relayed.Root == b.root.Path():
				if e := b.entries[c.Relayed.Team.Team]; e != nil {
					e.moved = true
				}
			}
			b.seq = c.Seq
		}
		if len(list) < page {
			return nil
		}
	}
}

// same reports whether e is still up to date.
func (b *statusCache) same(e *cachedTeam, l teams.Listing, now time.Time) bool {
	if e.stale || e.config == nil || l.Orphan || l.Err != nil || !e.due.IsZero() && !now.Before(e.due) {
		return false
	}
	info, err := os.Stat(b.config(l.Name))
	return err == nil && os.SameFile(info, e.config) && info.ModTime().Equal(e.config.ModTime()) && info.Size() == e.config.Size() &&
		e.lead.Liveness() == e.led
}

func (b *statusCache) config(team string) string {
	return filepath.Join(b.root.Path(), "teams", team, "config.json")
}

// examine reads a team. Problems with its files are part of the result.
func (b *statusCache) examine(ctx context.Context, l teams.Listing, now time.Time) (*cachedTeam, error) {
	e := &cachedTeam{states: []api.Status{}}
	// Before the team is read, so that a change in the meantime is noticed.
	info, err := os.Stat(b.config(l.Name))
	if err == nil {
		e.config = info
	}
	if e.team, err = view.Listed(ctx, b.root, l); err != nil {
		return nil, err
	}
	if e.team.Problem != "" {
		e.config = nil
		return e, nil
	}
	if err := b.states(ctx, e, l.Name, now); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		e.states, e.config = []api.Status{}, nil
		e.team.Problem = view.Describe(err)
	}
	for _, s := range e.states {
		if s.State != api.StateActive {
			continue
		}
		if end := s.Since.Add(status.IdleAfter); e.due.IsZero() || end.Before(e.due) {
			e.due = end
		}
	}
	return e, nil
}

// states reads what the agents of a team are doing.
func (b *statusCache) states(ctx context.Context, e *cachedTeam, name string, now time.Time) error {
	t, err := b.root.Team(name)
	if err != nil {
		return err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil {
		return err
	}
	e.lead, e.led = c.LeadProcess, c.LeadProcess.Liveness()
	e.team = view.Team(t, c, now)
	if e.lead == nil && e.team.LeadState != teams.Unknown.String() {
		// Nothing in the team changes when such a lead ends.
		e.due = now.Add(leadAgain)
	}
	if e.states, err = view.Statuses(ctx, b.source, t, now); err != nil {
		return err
	}
	return b.relaysOf(ctx, e, t)
}

// relays reads the relays of a team.
func (b *statusCache) relays(ctx context.Context, e *cachedTeam, name string) error {
	t, err := b.root.Team(name)
	if err != nil {
		return err
	}
	defer t.Close()
	return b.relaysOf(ctx, e, t)
}

func (b *statusCache) relaysOf(ctx context.Context, e *cachedTeam, t *teams.Team) error {
	e.moved = false // before they are read
	relays, err := b.known(ctx, t)
	if err != nil {
		return err
	}
	e.relays = len(relays)
	view.WithRelays(e.states, relays)
	return nil
}

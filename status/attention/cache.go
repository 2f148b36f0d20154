package attention

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/relay/pane"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/transcript"
)

// cachedTeam is a team as of its last reading.
type cachedTeam struct {
	team      api.Team
	known     []status.Known
	states    []api.Status           // from known and from the relays
	processes map[string]os.FileInfo // files of the members' processes, by path
	relayNews bool                   // a relay has news since the last reading
	running   []string               // members whose relays ran at the last reading
	paneNews  [2]int                 // counts of news from the ledger and from panes, at the last reading
	config    os.FileInfo
	createdAt int64 // from config.json
	lead      *teams.LeadProcess
	leadState teams.Liveness // of lead
	due       time.Time      // when a state expires; zero if none does
	stale     bool           // the team must be read again

	messageWaits []api.Attention // attention items from messages
	waits        []api.Attention // all attention items: those, and the ones from relays and states

	// Details for an overview, by agent.
	dirs   map[string]string // working directories
	ways   map[string]string // ways to sessions: see [view.Way]
	tasks  map[string]task   // last messages to each agent
	tools  map[string]task   // last tool calls; empty if there was none
	loops  map[pair]loop
	silent map[string]bool // agents that work without news
	// assigned returns the name of a member's task list ("" if it has none) and its task in progress. It is nil
	// if no list is known.
	assigned func(member string) (string, assigned)

	toolNews  bool      // tools has changed since toolsTold
	toolsTold time.Time // when tools was last shown

	digest string // the JSON of its part of a snapshot
}

// teamRelays is the ledger's state of the relays of a team.
type teamRelays struct {
	added []ledger.Relay
	infos []ledger.RelayInfo
}

// toolInterval limits how often tool calls are shown: each snapshot goes to each stream.
const toolInterval = time.Second

// leadInterval is how often a team is read if no event would announce the end of its lead or of another process.
const leadInterval = time.Minute

// current returns the snapshot of the last refresh. c.mu is held.
func (c *Cache) current(team string) api.Snapshot {
	s := api.Snapshot{Teams: []api.Team{}, Status: []api.Status{}, Attention: []api.Attention{}}
	for _, t := range c.list {
		if team == "" || t.Team == team {
			s.Teams = append(s.Teams, t)
			s.Status = append(s.Status, c.entries[t.Team].states...)
			s.Attention = append(s.Attention, c.open(c.entries[t.Team])...)
		}
	}
	slices.SortStableFunc(s.Attention, func(a, b api.Attention) int {
		switch {
		case a.Since == nil || b.Since == nil:
			return cmp.Compare(sinceUnknown(a), sinceUnknown(b))
		}
		return a.Since.Compare(*b.Since)
	})
	return s
}

// sinceUnknown sorts items with an unknown time last.
func sinceUnknown(a api.Attention) int {
	if a.Since == nil {
		return 1
	}
	return 0
}

// find returns the item with an id, dismissed or not, as of the last refresh. c.mu is held.
func (c *Cache) find(id string) (e *cachedTeam, a api.Attention) {
	for _, e := range c.entries {
		if i := slices.IndexFunc(e.waits, func(a api.Attention) bool { return a.ID == id }); i >= 0 {
			return e, e.waits[i]
		}
	}
	return nil, a
}

// refresh reads what may have changed, and notifies streams of changes. c.mu is held.
func (c *Cache) refresh(ctx context.Context) error {
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	listings, err := c.opts.Root.Teams()
	if err != nil {
		return err
	}
	now := time.Now()
	c.lookForProcesses()
	for list := range c.changed() {
		for _, name := range []string{list, pane.SessionTeam} { // a list without a team belongs to a session
			if e := c.entries[name]; e != nil {
				e.stale = true
			}
		}
	}
	if err := c.lookForRelays(ctx); err != nil {
		return err
	}
	entries := map[string]*cachedTeam{}
	list := make([]api.Team, 0, len(listings))
	c.untold = c.untold || c.entries == nil
	real := map[string]bool{} // names of real teams
	for _, l := range listings {
		real[l.Name] = true
		if c.only != "" && l.Name != c.only {
			continue
		}
		e, digest := c.entries[l.Name], ""
		if e != nil {
			digest = e.digest
		}
		switch {
		case e == nil || !c.upToDate(e, l, now):
			if e, err = c.read(ctx, l, now); err != nil {
				return err
			}
		case e.relayNews || c.lostRelay(e):
			err := c.withTeam(l.Name, func(t *teams.Team) error { return c.readRelays(ctx, e, t, now) })
			if ctx.Err() != nil {
				return ctx.Err()
			}
			e.stale = err != nil // the next refresh shows the problem
		case e.toolNews && now.Sub(e.toolsTold) >= toolInterval:
		default:
			entries[l.Name], list = e, append(list, e.team)
			continue
		}
		if err := c.show(e); err != nil {
			return err
		}
		c.untold = c.untold || e.digest != digest
		entries[l.Name], list = e, append(list, e.team)
	}
	for _, name := range []string{pane.SessionTeam, pane.Team} {
		if real[name] || c.only != "" && c.only != name {
			continue
		}
		switch e, again, err := c.readPanes(ctx, name, now); {
		case err != nil:
			return err
		case e != nil:
			digest := e.digest
			if was := c.entries[name]; was != nil {
				digest = was.digest
			}
			if again {
				if err := c.show(e); err != nil {
					return err
				}
				c.untold = c.untold || e.digest != digest
			}
			entries[name] = e
			list = view.WithPanes(list, e.team)
		}
	}
	machines, err := c.readMachines(ctx)
	if err != nil {
		return err
	}
	for _, e := range machines {
		if c.only != "" && c.only != e.team.Team {
			continue
		}
		if err := c.show(e); err != nil {
			return err
		}
		was := c.entries[e.team.Team]
		c.untold = c.untold || was == nil || was.digest != e.digest
		entries[e.team.Team] = e
		list = view.WithPanes(list, e.team)
	}
	c.untold = c.untold || len(entries) != len(c.entries)
	c.entries, c.list, c.fresh = entries, list, now
	if c.untold {
		c.untold = false
		c.opts.Changed()
	}
	return nil
}

// show updates the digest of a team that was read. c.mu is held.
func (c *Cache) show(e *cachedTeam) error {
	c.place(e, e.states)
	e.toolNews, e.toolsTold = false, time.Now()
	data, err := json.Marshal(api.Snapshot{Teams: []api.Team{e.team}, Status: e.states, Attention: c.open(e)})
	e.digest = string(data)
	return err
}

// open returns the items of a team that are not dismissed. c.mu is held.
func (c *Cache) open(e *cachedTeam) []api.Attention {
	return slices.DeleteFunc(slices.Clone(e.waits), func(a api.Attention) bool { return c.dismissed[a.ID] })
}

// catchUp marks as stale the teams with new changes in the journal.
func (c *Cache) catchUp(ctx context.Context) error {
	const page = 50
	last, err := c.opts.Journal.Last(ctx)
	if err != nil {
		return err
	}
	if last-c.seq > c.opts.Behind { // the first refresh, or the first one after a time without streams
		c.forget(last)
		return nil
	}
	for {
		list, err := c.opts.Journal.Messages.Changes(ctx, c.seq, page)
		if errors.Is(err, journal.ErrPruned) {
			c.forget(last)
			return nil
		}
		if err != nil {
			return err
		}
		for _, change := range list {
			if e := c.entries[change.Message.Team]; e != nil && change.Message.Root == c.opts.Root.Path() {
				e.stale = true
			}
			if e := c.entries[change.Envelope.Team]; e != nil && change.Envelope.Root == c.opts.Root.Path() &&
				change.Kind == journal.Said {
				kind := change.Envelope.Kind
				// Changes within a turn only keep it alive, and e.due handles that.
				e.stale = e.stale || kind == "turn-start" || kind == "turn-end" || e.silent[change.Envelope.Inbox]
				e.toolNews = e.called(change.Envelope) || e.toolNews
			}
			if e := c.entries[change.Receipt.Team]; e != nil && change.Receipt.Root == c.opts.Root.Path() {
				e.stale = true
			}
			if e := c.entries[change.RelayEvent.Team]; e != nil && change.RelayEvent.Root == c.opts.Root.Path() {
				e.relayNews = true
			}
			c.seq = change.Seq
		}
		if len(list) < page {
			return nil
		}
	}
}

// forget makes all teams stale. The journal was read up to seq.
func (c *Cache) forget(seq int64) {
	for _, e := range c.entries {
		e.stale = true
	}
	c.seq = seq
}

// upToDate reports whether e needs no new reading.
func (c *Cache) upToDate(e *cachedTeam, l teams.Listing, now time.Time) bool {
	if e.stale || e.config == nil || l.Orphan || l.Err != nil || !e.due.IsZero() && !now.Before(e.due) {
		return false
	}
	for path, was := range e.processes {
		if info, _ := os.Stat(path); !lockedfile.SameFile(was, info) {
			return false
		}
	}
	info, err := os.Stat(configPath(c.opts.Root, l.Name))
	return err == nil && lockedfile.SameFile(info, e.config) && e.lead.Liveness() == e.leadState
}

// lookForProcesses marks all teams as stale if a process has started or ended.
func (c *Cache) lookForProcesses() {
	info, _ := os.Stat(filepath.Join(c.opts.Root.Path(), "sessions"))
	if !lockedfile.SameFile(c.folder, info) {
		for _, e := range c.entries {
			e.stale = true
		}
	}
	if c.folder = info; info != nil && time.Since(info.ModTime()) < time.Second {
		c.folder = nil // the file of a new process may not have been written yet
	}
}

// lookForRelays finds the teams whose relays have changed, and those with a newly dismissed item. It uses
// reports of relays and the ledger, since the journal does not have every change of the ledger.
func (c *Cache) lookForRelays(ctx context.Context) error {
	c.reporting.Lock()
	for team := range c.reported {
		if e := c.entries[team]; e != nil {
			e.relayNews = true
		}
	}
	c.reported = map[string]bool{}
	c.reporting.Unlock()
	version, err := c.opts.Ledger.Version(ctx)
	if err != nil || version == c.ledgerVersion {
		return err
	}
	infos, err := c.opts.Ledger.Sessions.RelayInfos(ctx, c.opts.Root.Path())
	if err != nil {
		return err
	}
	added, err := c.opts.Ledger.Relays.List(ctx, c.opts.Root.Path())
	if err != nil {
		return err
	}
	relays := map[string]teamRelays{}
	for _, r := range infos {
		t := relays[r.Team]
		t.infos = append(t.infos, r)
		relays[r.Team] = t
	}
	for _, r := range added {
		t := relays[r.Team]
		t.added = append(t.added, r)
		relays[r.Team] = t
	}
	for team, e := range c.entries {
		e.relayNews = e.relayNews || !reflect.DeepEqual(relays[team], c.ofLedger[team])
	}
	panes, err := c.opts.Ledger.Panes.List(ctx, c.opts.Root.Path())
	if err != nil {
		return err
	}
	ids, err := c.opts.Ledger.Person.Dismissed(ctx, c.opts.Root.Path()) // another process may have dismissed some
	if err != nil {
		return err
	}
	dismissed := map[string]bool{}
	for _, id := range ids {
		dismissed[id] = true
	}
	for _, e := range c.entries {
		e.relayNews = e.relayNews || slices.ContainsFunc(e.waits, func(a api.Attention) bool { return dismissed[a.ID] != c.dismissed[a.ID] })
	}
	c.ledgerVersion, c.ofLedger, c.registered, c.dismissed = version, relays, panes, dismissed
	c.ledgerNews++
	return nil
}

// lostRelay reports whether a relay of a team has stopped. A killed relay reports nothing, and one that ends
// reports it while it still holds its lock.
func (c *Cache) lostRelay(e *cachedTeam) bool {
	if len(e.running) == 0 {
		return false
	}
	err := c.withTeam(e.team.Team, func(t *teams.Team) error {
		for _, member := range e.running {
			if running, err := relay.Running(c.opts.State, t, member); err != nil || !running {
				return cmp.Or(err, fleet.ErrNotRunning)
			}
		}
		return nil
	})
	return err != nil
}

// withTeam opens a team, and calls do with it.
func (c *Cache) withTeam(name string, do func(*teams.Team) error) error {
	t, err := c.opts.Root.Team(name)
	if err != nil {
		return err
	}
	defer t.Close()
	return do(t)
}

func configPath(root *teams.Root, team string) string {
	return filepath.Join(root.Path(), "teams", team, "config.json")
}

// read reads a team. Problems with its files are part of the result.
func (c *Cache) read(ctx context.Context, l teams.Listing, now time.Time) (*cachedTeam, error) {
	e := &cachedTeam{team: api.Team{Team: l.Name, LeadState: teams.Unknown.String()}, states: []api.Status{}}
	if l.Orphan || l.Err != nil {
		var err error
		e.team, err = view.Listed(ctx, c.opts.Root, l)
		return e, err
	}
	// This stat comes before the team is read, so a change in the meantime is noticed.
	info, _ := os.Stat(configPath(c.opts.Root, l.Name))
	err := c.withTeam(l.Name, func(t *teams.Team) error { return c.readTeam(ctx, e, t, now) })
	if ctx.Err() != nil {
		return nil, ctx.Err() // the team was read, but ctx may have ended in between
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
	}
	return e, nil
}

// dueAt schedules a new reading of e at a time, or earlier.
func (e *cachedTeam) dueAt(at time.Time) {
	if e.due.IsZero() || at.Before(e.due) {
		e.due = at
	}
}

// readTeam reads the config, the states and the relays of a team.
func (c *Cache) readTeam(ctx context.Context, e *cachedTeam, t *teams.Team, now time.Time) error {
	config, err := t.Config(ctx)
	if err != nil {
		return err
	}
	e.createdAt = config.Instance().CreatedAt
	e.lead, e.leadState = config.LeadProcess, config.LeadProcess.Liveness()
	e.team = view.Team(t, config, now)
	e.dirs = map[string]string{}
	for _, m := range config.Members {
		e.dirs[m.Name] = cmp.Or(m.Cwd, e.team.Cwd)
	}
	e.processes = map[string]os.FileInfo{}
	for _, p := range t.Processes(config) {
		e.processes[p.Path], _ = os.Stat(p.Path) // before known is read
	}
	// Claude Code writes these files in place, so one may be incomplete. Then its last state stays.
	if was := c.entries[t.Name()]; was != nil {
		for path := range was.processes {
			if info, err := os.Stat(path); err == nil && e.processes[path] == nil {
				e.processes[path] = info
			}
		}
	}
	if e.lead == nil && e.team.LeadState != teams.Unknown.String() || len(e.processes) > 0 || slices.ContainsFunc(config.Members, func(m teams.Member) bool { return m.TmuxPaneID != "" && !m.Guest() }) {
		e.due = now.Add(leadInterval)
	}
	if e.known, err = view.Known(ctx, c.opts.Source, t, now); err != nil {
		return err
	}
	if e.messageWaits, err = c.teamWaits(ctx, t, config, e); err != nil {
		return err
	}
	if err := c.readRelays(ctx, e, t, now); err != nil {
		return err
	}
	if err := c.ofTeam(ctx, e); err != nil {
		return err
	}
	return c.readTools(ctx, e, c.entries[t.Name()])
}

func (c *Cache) readRelays(ctx context.Context, e *cachedTeam, t *teams.Team, now time.Time) error {
	e.relayNews = false // set again if a relay reports during the reading
	relays, asked, err := c.RelaysOf(ctx, t)
	if err != nil {
		return err
	}
	entries, err := c.Relays(ctx, t.Name())
	if err != nil {
		return err
	}
	e.running = nil
	for _, r := range entries {
		if r.Running {
			e.running = append(e.running, r.Member)
		}
	}
	waits, err := c.relayStates.waits(ctx, e.createdAt, entries)
	if err != nil {
		return err
	}
	e.states = view.Decided(e.known, relays, asked, now)
	served := func(member string) bool {
		return slices.ContainsFunc(entries, func(r api.RelayEntry) bool { return r.Created != nil && r.Member == member })
	}
	typed, err := c.memberPaneWaits(ctx, e, now)
	if err != nil {
		return err
	}
	silent, err := c.silentMembers(ctx, e, t, now)
	if err != nil {
		return err
	}
	asks := func(of transcript.Process, since time.Time, there string) (api.Attention, bool) {
		return c.answerable(e, of, since, now, there)
	}
	e.waits = slices.Concat(e.messageWaits, waits, typed, e.stateWaits(c.opts.Root.Path(), now, served, asks), silent, e.loopWaits())
	describe(e.waits)
	return nil
}

// silentMembers calls silentWaits for the members of a team.
func (c *Cache) silentMembers(ctx context.Context, e *cachedTeam, t *teams.Team, now time.Time) ([]api.Attention, error) {
	config, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	return e.silentWaits(now, func(i int) (at time.Time) {
		for _, path := range t.Agent(config, e.states[i].Member).Transcripts() {
			if info, err := os.Stat(path); err == nil && info.ModTime().After(at) {
				at = info.ModTime()
			}
		}
		return at
	}), nil
}

// Package fleet runs the relays that are recorded in the ledger, and starts their agents.
//
// [Fleet.Run] keeps one relay going for each [ledger.Relay] of a Claude root:
//
//   - It is started whenever a team of its name exists. A relay with a team of its own
//     ([ledger.Relay.OwnTeam]) makes the team; if this process is killed, the next one
//     takes the team back. In such a team, the agents of other relays become members.
//   - A relay that ends with an error is started again after 1 s, doubled up to 60 s.
//   - A relay whose agent does not stay alive is dead, also for the next Run, until it
//     is retried ([Admin.Retry]), its member gets another relay, or its team is made
//     again. A relay whose agent was shut down on request has ended in the same way.
//
// [Admin] adds and removes relays in the ledger, in any process. The fleet looks there
// every 2 s and when it is poked. There is one fleet for a Claude root and a state
// directory.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/reply"
	"teambridge/relay/runtimes"
	"teambridge/relay/wire"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

var (
	// ErrBusy means that another process runs the relays of this Claude root.
	ErrBusy = errors.New("another process runs these relays")
	// ErrUnknown means that there is no relay of that id.
	ErrUnknown = errors.New("no such relay")
	// ErrNotRunning means that the relay does not run now; [Status] says why.
	ErrNotRunning = errors.New("the relay is not running")
)

// Options says whose relays are run. The first group is needed.
type Options struct {
	Root   *teams.Root
	Ledger *ledger.Ledger
	Locker *lockedfile.Locker
	State  string // our state directory

	Env    []string     // of the agents, as "NAME=value"; nil is ours
	Timing relay.Timing // of each relay

	// Every is how often the fleet looks for new relays and teams; 0 is 2 s.
	Every time.Duration
	// Told says that [Fleet.Poke] is called after each change of the ledger: without it, the
	// fleet then looks only while something is left to do.
	Told bool

	// Report, if not nil, gets each change of a relay's status.
	Report func(Status)
	// Journal and Envelope are those of [relay.Options]. Either may be nil.
	Journal  *journal.Journal
	Envelope func(wire.Envelope)
	// Events, if not nil, gets everything that the agents print.
	Events func(id string, e agent.Event)
	// Recorded is [relay.Options.Recorded].
	Recorded func()
	// Warn, if not nil, gets errors that do not end the fleet.
	Warn func(error)
}

// Status is the state of one relay of a fleet.
type Status struct {
	ledger.Relay
	Now       relay.Status // [relay.Stopped] while there is nothing to relay to; Reason says why
	Questions []Question   // waiting for a person
}

// Fleet runs relays. Make it with [New].
type Fleet struct {
	opts Options
	wake chan struct{}

	mu      sync.Mutex
	members map[string]*runner // by id; also those that are ending

	prepare func(context.Context, *relay.Options, runtimes.Launch, *PermissionPrompter) error // [Prepare], but in tests
}

// Back-off between two runs of a relay that ended by itself.
const (
	backoffMin = time.Second
	backoffMax = time.Minute
)

// New returns a fleet. It starts nothing.
func New(opts Options) *Fleet {
	if opts.Every == 0 {
		opts.Every = 2 * time.Second
	}
	if opts.Report == nil {
		opts.Report = func(Status) {}
	}
	if opts.Events == nil {
		opts.Events = func(string, agent.Event) {}
	}
	if opts.Recorded == nil {
		opts.Recorded = func() {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Fleet{opts: opts, wake: make(chan struct{}, 1), members: map[string]*runner{}, prepare: Prepare}
}

// lockOf names the lock of the fleet of a Claude root.
func lockOf(state, root string) (dir, key string) {
	return filepath.Join(state, "locks"), "fleet\n" + root
}

// Running reports whether a fleet runs for a Claude root now, in any process.
func Running(state string, root *teams.Root) (bool, error) {
	return lockedfile.Held(lockOf(state, root.Path()))
}

// Run keeps the relays going until ctx ends. It returns nil when all of them have ended:
// their agents may finish their turns, for 30 s. It returns [ErrBusy] if another fleet
// still runs for this Claude root after [lockedfile.Handover].
func (f *Fleet) Run(ctx context.Context) error {
	dir, key := lockOf(f.opts.State, f.opts.Root.Path())
	release, err := lockedfile.HoldWithin(ctx, cmp.Or(f.opts.Timing.Handover, lockedfile.Handover), dir, key)
	if errors.Is(err, lockedfile.ErrLocked) {
		return fmt.Errorf("fleet: the relays of %s: %w", f.opts.Root.Path(), ErrBusy)
	}
	if err != nil {
		return err
	}
	ticker := time.NewTicker(f.opts.Every)
	defer ticker.Stop()
	var running sync.WaitGroup
	failing := false
	for ctx.Err() == nil {
		left, err := f.adjust(ctx, &running)
		if err != nil && ctx.Err() == nil && !failing {
			f.opts.Warn(fmt.Errorf("fleet: read which relays to run: %w", err))
		}
		failing = err != nil
		tick := ticker.C
		if f.opts.Told && !left && !failing {
			tick = nil
		}
		select {
		case <-ctx.Done():
		case <-f.wake:
		case <-tick:
		}
	}
	running.Wait()
	return release()
}

// adjust starts what was added and ends what was removed. It reports whether something of that
// is left to do.
func (f *Fleet) adjust(ctx context.Context, running *sync.WaitGroup) (left bool, err error) {
	entries, err := f.opts.Ledger.Relays(ctx, f.opts.Root.Path())
	if err != nil {
		return true, err
	}
	reaper := f.owner()
	reaper.Handover = 1 // it is called again
	if left, err = reaper.reapAll(ctx); err != nil {
		left = true
		if ctx.Err() == nil {
			f.opts.Warn(err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, m := range f.members {
		if !slices.ContainsFunc(entries, func(e ledger.Relay) bool { return e.ID == id }) {
			m.stop()
		}
	}
	for _, e := range entries {
		if f.members[e.ID] != nil {
			continue
		}
		if f.leaving(ctx, e) {
			left = true
			continue
		}
		m := &runner{fleet: f, entry: e, retry: make(chan struct{}, 1)}
		m.prompter = NewPermissionPrompter(func(Question, bool) { f.opts.Report(m.read()) })
		m.status.State = relay.Stopped
		var on context.Context
		on, m.stop = context.WithCancel(ctx)
		f.members[e.ID] = m
		running.Go(func() {
			m.run(on)
			m.stop()
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.members, e.ID)
			f.Poke() // its member may have another relay, or its team may be removed
		})
	}
	return left, nil
}

// leaving reports whether a removed relay for the same member is still ending. The caller
// holds f.mu.
func (f *Fleet) leaving(ctx context.Context, e ledger.Relay) bool {
	name := func(e ledger.Relay) string { return f.opts.Root.MemberName(ctx, e.Team, e.Member) }
	for _, m := range f.members {
		if m.entry.Team == e.Team && (m.entry.Member == e.Member || name(m.entry) == name(e)) {
			return true
		}
	}
	return false
}

func (f *Fleet) owner() TeamOwner {
	return TeamOwner{Root: f.opts.Root, Ledger: f.opts.Ledger, Locker: f.opts.Locker, State: f.opts.State}
}

// Poke makes the fleet look at the ledger now. It does not block.
func (f *Fleet) Poke() {
	signal(f.wake)
}

// signal puts a signal into a channel that holds one, unless one is pending.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (f *Fleet) admin() Admin { return Admin(f.owner()) }

// Retry tries a relay again at once that has given up, or waits to be started again.
// [ErrUnknown] and [ErrNotDead].
func (f *Fleet) Retry(ctx context.Context, id string) error {
	m, err := f.member(id)
	if err != nil {
		return err
	}
	switch state := m.read().Now.State; state {
	case relay.Dead, relay.Ended:
		if err := f.admin().Retry(ctx, m.entry); err != nil && !errors.Is(err, ErrNotDead) {
			return err
		}
	case relay.Stopped:
	default:
		return fmt.Errorf("fleet: retry relay %s, which is %s: %w", id, state, ErrNotDead)
	}
	signal(m.retry)
	return nil
}

// entry returns the relay of that id as it was added. [ErrUnknown].
func (f *Fleet) entry(ctx context.Context, id string) (ledger.Relay, error) {
	all, err := f.opts.Ledger.Relays(ctx, f.opts.Root.Path())
	if err != nil {
		return ledger.Relay{}, err
	}
	i := slices.IndexFunc(all, func(e ledger.Relay) bool { return e.ID == id })
	if i < 0 {
		return ledger.Relay{}, fmt.Errorf("fleet: relay %s: %w", id, ErrUnknown)
	}
	return all[i], nil
}

// Serving returns the relay of this fleet that serves an inbox, even if it does not run
// now. ok is false if there is none, if another process relays the inbox, or if the
// member is a lead with a terminal.
func (f *Fleet) Serving(ctx context.Context, t *teams.Team, inbox string) (id string, ok bool, err error) {
	// The ledger counts, since the fleet may not have seen a new relay yet.
	entries, err := f.opts.Ledger.Relays(ctx, f.opts.Root.Path())
	if err != nil {
		return "", false, err
	}
	for _, e := range entries {
		if e.Team != t.Name() {
			continue
		}
		name, err := Member(ctx, t, e.Member)
		_, terminal := errors.AsType[*LeadError](err)
		if _, unknown := errors.AsType[*teams.NotFoundError](err); terminal || unknown {
			continue
		}
		if err != nil {
			return "", false, err
		}
		if name != inbox {
			continue
		}
		if m, err := f.member(e.ID); err == nil && m.running() != nil {
			return e.ID, true, nil
		}
		if f.ending(t, inbox) {
			return e.ID, true, nil // its predecessor is ending
		}
		elsewhere, err := relay.Running(f.opts.State, t, inbox)
		return e.ID, !elsewhere, err
	}
	return "", false, nil
}

// ending reports whether a relay of this fleet, listed or not, serves an inbox now.
func (f *Fleet) ending(t *teams.Team, inbox string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if r := m.running(); r != nil && r.Key().Team == t.Name() && r.Key().Inbox == inbox {
			return true
		}
	}
	return false
}

// Prompt puts a person's prompt into the queue of a relay, as [relay.Prompt] does, for
// the team that exists now. [ErrUnknown], and [ErrNotRunning] if there is no such team.
func (f *Fleet) Prompt(ctx context.Context, id string, in relay.Input) (relay.PromptResult, error) {
	results, err := f.Prompts(ctx, id, in)
	if err != nil {
		return relay.PromptResult{}, err
	}
	return results[0], nil
}

// Prompts is [Fleet.Prompt] for several prompts, in that order, all or none.
func (f *Fleet) Prompts(ctx context.Context, id string, ins ...relay.Input) ([]relay.PromptResult, error) {
	e, err := f.entry(ctx, id) // which this fleet may not have started yet
	if err != nil {
		return nil, err
	}
	t, err := f.opts.Root.Team(e.Team)
	var key ledger.InboxKey
	if err == nil {
		defer t.Close()
		key, err = place(ctx, t, e.Member)
	}
	if errors.Is(err, teams.ErrTeamGone) {
		err = fmt.Errorf("fleet: relay %s for %s@%s: %w: there is no team %s", id, e.Member, e.Team, ErrNotRunning, e.Team)
	}
	if err != nil {
		return nil, err
	}
	// A running relay may still serve an earlier team of that name.
	if r, err := f.running(id); err == nil && r.Key() == key {
		return r.Prompts(ctx, ins...)
	}
	results, err := relay.Prompts(ctx, f.opts.Ledger, key, ins...)
	if err == nil {
		f.opts.Recorded()
	}
	return results, err
}

// Interrupt stops the turn of an agent, as [relay.Relay.Interrupt] does. [ErrUnknown],
// [ErrNotRunning], [relay.ErrNotBegun] and [agent.ErrNotInFlight].
func (f *Fleet) Interrupt(ctx context.Context, id string) error {
	r, err := f.running(id)
	if err != nil {
		return err
	}
	return r.Interrupt(ctx)
}

// Answer answers a question of an agent, as [PermissionPrompter.Answer] does. The error
// can also be [ErrUnknown].
func (f *Fleet) Answer(id string, a Answer) error {
	m, err := f.member(id)
	if err != nil {
		return err
	}
	return m.prompter.Answer(a)
}

// Status returns the state of a relay. [ErrUnknown].
func (f *Fleet) Status(id string) (Status, error) {
	m, err := f.member(id)
	if err != nil {
		return Status{}, err
	}
	return m.read(), nil
}

func (f *Fleet) member(id string) (*runner, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[id]
	if m == nil {
		return nil, fmt.Errorf("fleet: relay %s: %w", id, ErrUnknown)
	}
	return m, nil
}

func (f *Fleet) running(id string) (*relay.Relay, error) {
	m, err := f.member(id)
	if err != nil {
		return nil, err
	}
	if r := m.running(); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("fleet: relay %s for %s@%s: %w: %s", id, m.entry.Member, m.entry.Team, ErrNotRunning, m.read().Now.Reason)
}

// runner is one relay of a fleet.
type runner struct {
	fleet    *Fleet
	entry    ledger.Relay
	prompter *PermissionPrompter
	stop     context.CancelFunc
	retry    chan struct{}

	mu     sync.Mutex
	relay  *relay.Relay // while it runs
	status relay.Status
}

// running is the relay while it runs, else nil.
func (m *runner) running() *relay.Relay {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.relay
}

func (m *runner) read() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Status{Relay: m.entry, Now: m.status, Questions: m.prompter.Questions()}
}

// set changes the status.
func (m *runner) set(s relay.Status) {
	m.mu.Lock()
	same := m.status == s
	m.status = s
	m.mu.Unlock()
	if !same {
		m.fleet.opts.Report(m.read())
	}
}

// run runs the relay again and again.
func (m *runner) run(ctx context.Context) {
	backoff := time.Duration(0)
	for {
		began := time.Now()
		err := m.once(ctx)
		if ctx.Err() != nil {
			m.set(relay.Status{State: relay.Stopped})
			return
		}
		if time.Since(began) > backoffMax {
			backoff = 0
		}
		s := relay.Status{State: relay.Stopped, Reason: "it ended"}
		wait := m.fleet.opts.Every
		switch {
		case err == nil: // only when ctx ends
		case errors.Is(err, relay.ErrDead):
			if s = m.read().Now; s.State != relay.Dead { // if it died in another process
				s = relay.Status{State: relay.Dead, Reason: err.Error()}
			}
			backoff = 0
		case errors.Is(err, reply.ErrShutDown):
			s = relay.Status{State: relay.Ended, Reason: m.ended(ctx)}
			backoff = 0
		case errors.Is(err, teams.ErrTeamGone):
			s.Reason = "there is no team " + m.entry.Team
			backoff = 0
		default:
			backoff = min(max(2*backoff, backoffMin), backoffMax)
			wait = backoff
			s.Reason = err.Error()
		}
		m.set(s)
		select {
		case <-ctx.Done():
		case <-m.retry:
		case <-time.After(wait):
		}
	}
}

// ended makes an agent that was shut down leave the team, and returns why it was.
func (m *runner) ended(ctx context.Context) (why string) {
	owner := m.fleet.owner()
	s, err := owner.session(ctx, m.entry)
	if err == nil {
		err = owner.leave(ctx, m.entry.Team, s.Inbox)
	}
	if err != nil && !errors.Is(err, teams.ErrTeamGone) && ctx.Err() == nil {
		m.fleet.opts.Warn(fmt.Errorf("%s@%s was shut down, and is still a member: %w", m.entry.Member, m.entry.Team, err))
	}
	return s.ShutDown
}

// place is the inbox in t of a member that a relay may serve, as [Member] says.
func place(ctx context.Context, t *teams.Team, member string) (ledger.InboxKey, error) {
	name, err := Member(ctx, t, member)
	if err != nil {
		return ledger.InboxKey{}, err
	}
	return Key(ctx, t, name)
}

// enlist makes the agents of all relays of a team members of it, if they may be: before
// its lead starts, so that it can write to them. The error is that of the relay e; those of
// others are reported by their own runners.
func (f *Fleet) enlist(ctx context.Context, e *ledger.Relay) error {
	entries, err := f.opts.Ledger.Relays(ctx, f.opts.Root.Path())
	for _, other := range entries {
		if other.Team != e.Team || other.OwnTeam {
			continue
		}
		s, eerr := f.owner().session(ctx, other)
		if eerr == nil && s.ShutDown == "" {
			_, eerr = f.owner().Enlist(ctx, other)
		}
		if other.ID == e.ID {
			err = errors.Join(err, eerr)
		}
	}
	return err
}

// once runs the relay in the team that exists now.
func (m *runner) once(ctx context.Context) error {
	f, e := m.fleet, &m.entry
	if e.OwnTeam {
		// A team that is somebody else's is served like any other.
		if _, _, err := f.owner().Acquire(ctx, e.Team, teams.LeadName(e.Member), "", e.Dir); err != nil {
			return err
		}
	}
	t, err := f.opts.Root.Team(e.Team)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := f.enlist(ctx, e); err != nil {
		return err
	}
	if s, err := f.owner().session(ctx, *e); err != nil {
		return err
	} else if s.ShutDown != "" {
		return fmt.Errorf("%w: %s", reply.ErrShutDown, s.ShutDown)
	}
	key, err := place(ctx, t, e.Member)
	if err != nil {
		return err
	}
	// It may have died in an earlier process.
	if s, found, err := f.opts.Ledger.Session(ctx, key); err != nil {
		return err
	} else if found && s.Dead != "" {
		return fmt.Errorf("%w: %s", relay.ErrDead, s.Dead)
	}
	opts := relay.Options{
		Team: t, Locker: f.opts.Locker, Ledger: f.opts.Ledger, State: f.opts.State, Timing: f.opts.Timing,
		Journal: f.opts.Journal, Envelope: f.opts.Envelope,
		Events: func(ev agent.Event) { f.opts.Events(e.ID, ev) }, Report: m.set, Recorded: f.opts.Recorded,
		Warn: func(err error) { f.opts.Warn(fmt.Errorf("%s@%s: %w", key.Inbox, e.Team, err)) },
	}
	if err := f.prepare(ctx, &opts, runtimes.Launch{Settings: *e, Env: f.opts.Env}, m.prompter); err != nil {
		return err
	}
	r, err := reply.New(ctx, opts)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.relay = r.Relay
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.relay = nil
		m.mu.Unlock()
	}()
	return r.Run(ctx)
}

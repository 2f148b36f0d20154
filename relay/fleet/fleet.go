// Package fleet runs the relays that are recorded in the ledger, with their agents.
//
// [Fleet.Run] runs one relay for each [ledger.Relay] of a Claude root:
//
//   - A relay runs whenever a team of its name exists. A relay with a team of its own
//     ([ledger.Relay.OwnTeam]) makes the team; if this process is killed, the next one
//     takes the team over. In such a team, the agents of other relays become members.
//   - A relay that ends with an error is restarted after 1 s, doubled up to 60 s.
//   - A relay whose agent does not stay alive is dead, even in the next Run. It runs again
//     after a retry ([Admin.Retry]), when its member gets another relay, or when its team
//     is made again. The same holds for a relay whose agent was shut down on request.
//
// [Admin] adds and removes relays in the ledger, in any process. The fleet checks for changes every 2 s and
// when it is poked. Each pair of a Claude root and a state directory has at most one fleet.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/pipe"
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
	// ErrNotRunning means that the relay is not running now; [Status] has the reason.
	ErrNotRunning = errors.New("the relay is not running")
)

// Options are the options of [New]. The first group is required.
type Options struct {
	Root   *teams.Root
	Ledger *ledger.Ledger
	Locker *lockedfile.Locker
	State  string // our state directory

	Env    []string     // the agents' environment, as "NAME=value"; nil is the caller's
	Timing relay.Timing // the timing of each relay

	// Every is how often the fleet looks for new relays and teams; 0 is 2 s.
	Every time.Duration
	// Poked promises that [Fleet.Poke] follows every change of the ledger. The fleet then polls only while
	// work is left to do.
	Poked bool

	// Report, if not nil, receives each change of a relay's status.
	Report func(Status)
	// Journal and Envelope are as in [relay.Options]. Either may be nil.
	Journal  *journal.Journal
	Envelope func(wire.Envelope)
	// Events, if not nil, receives all output of the agents.
	Events func(id string, e agent.Event)
	// Recorded is [relay.Options.Recorded].
	Recorded func()
	// Warn, if not nil, receives errors that do not end the fleet.
	Warn func(error)
}

// Status is the state of one relay of a fleet.
type Status struct {
	ledger.Relay
	Now       relay.Status // [relay.Stopped] while there is no inbox to relay; Reason says why
	Questions []Question   // waiting for a person
}

// Fleet runs relays. Make it with [New].
type Fleet struct {
	opts Options
	wake chan struct{}

	mu      sync.Mutex
	members map[string]*runner // by id, including those that are ending

	prepare func(context.Context, *relay.Options, runtimes.Launch, *PermissionPrompter) error // [Prepare], except in tests
}

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

// lockOf returns the directory and the key of the lock of a Claude root's fleet.
func lockOf(state, root string) (dir, key string) {
	return filepath.Join(state, "locks"), "fleet\n" + root
}

// Running reports whether any process runs the fleet of a Claude root now.
func Running(state string, root *teams.Root) (bool, error) {
	return lockedfile.Held(lockOf(state, root.Path()))
}

// Run runs the relays until ctx ends. Their agents then have 30 s to finish their turns, and Run returns nil
// once all have ended. The error is [ErrBusy] if another fleet still serves this Claude root after
// [lockedfile.Handover].
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
			f.opts.Warn(fmt.Errorf("fleet: read the recorded relays: %w", err))
		}
		failing = err != nil
		tick := ticker.C
		if f.opts.Poked && !left && !failing {
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

// adjust starts new relays and ends removed ones. left reports whether work remains.
func (f *Fleet) adjust(ctx context.Context, running *sync.WaitGroup) (left bool, err error) {
	entries, err := f.opts.Ledger.Relays.List(ctx, f.opts.Root.Path())
	if err != nil {
		return true, err
	}
	reaper := f.owner()
	reaper.Handover = 1 // do not wait: the next adjust tries again
	if left, err = reaper.reapAll(ctx); err != nil {
		left = true
		if ctx.Err() == nil {
			f.opts.Warn(err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, m := range f.members {
		pipe.Poke(m.poked)
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
		m := &runner{fleet: f, entry: e, retry: make(chan struct{}, 1), poked: make(chan struct{}, 1), opening: make(chan struct{}, 1)}
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
			f.Poke() // its member may have a new relay, or its team may now be removable
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

// Poke makes the fleet check the ledger now. It does not block.
func (f *Fleet) Poke() { pipe.Poke(f.wake) }

func (f *Fleet) admin() Admin { return Admin(f.owner()) }

// Retry immediately restarts a relay that has given up or waits for its restart. The error is [ErrUnknown] or
// [ErrNotDead].
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
	pipe.Poke(m.retry)
	return nil
}

// entry returns the relay of that id as it was added. The error is [ErrUnknown] if there is none.
func (f *Fleet) entry(ctx context.Context, id string) (ledger.Relay, error) {
	all, err := f.opts.Ledger.Relays.List(ctx, f.opts.Root.Path())
	if err != nil {
		return ledger.Relay{}, err
	}
	i := slices.IndexFunc(all, func(e ledger.Relay) bool { return e.ID == id })
	if i < 0 {
		return ledger.Relay{}, fmt.Errorf("fleet: relay %s: %w", id, ErrUnknown)
	}
	return all[i], nil
}

// Serving returns the relay of this fleet that serves an inbox, even if the relay is not running now. ok is
// false if there is none, if another process relays the inbox, or if the member is a lead with a terminal.
func (f *Fleet) Serving(ctx context.Context, t *teams.Team, inbox string) (id string, ok bool, err error) {
	// The ledger decides, since the fleet may not have noticed a new relay yet.
	entries, err := f.opts.Ledger.Relays.List(ctx, f.opts.Root.Path())
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
		held, err := relay.Running(f.opts.State, t, inbox)
		if err != nil || !held {
			return e.ID, err == nil, err
		}
		m, err := f.member(e.ID)
		if err != nil { // the fleet has not started it yet
			return e.ID, f.ending(t, inbox), nil
		}
		select {
		case m.opening <- struct{}{}: // not while it opens the relay
			<-m.opening
		case <-ctx.Done():
			return "", false, ctx.Err()
		}
		return e.ID, m.running() != nil || f.ending(t, inbox), nil // its predecessor may be ending
	}
	return "", false, nil
}

// ending reports whether a relay of this fleet, even a removed one, still serves an inbox.
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

// Prompts adds a person's prompts to the queue of a relay in the current team, as [relay.Prompts] does. The
// error is [ErrUnknown], or [ErrNotRunning] if there is no such team.
func (f *Fleet) Prompts(ctx context.Context, id string, ins ...relay.Input) ([]relay.PromptResult, error) {
	e, err := f.entry(ctx, id) // from the ledger: the fleet may not have started the relay yet
	if err != nil {
		return nil, err
	}
	t, err := f.opts.Root.Team(e.Team)
	var key inbox.InboxKey
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

// Interrupt stops the turn of an agent, as [relay.Relay.Interrupt] does. The error is [ErrUnknown],
// [ErrNotRunning], [relay.ErrNotBegun] or [agent.ErrNotInFlight].
func (f *Fleet) Interrupt(ctx context.Context, id string) error {
	r, err := f.running(id)
	if err != nil {
		return err
	}
	return r.Interrupt(ctx)
}

// Asked is a question, with the relay whose agent asks it.
type Asked struct {
	Question
	Relay ledger.Relay
}

// Asked returns the open questions of all agents, the oldest first.
func (f *Fleet) Asked() (list []Asked) {
	for _, m := range f.all() {
		for _, q := range m.prompter.Questions() {
			list = append(list, Asked{q, m.entry})
		}
	}
	slices.SortFunc(list, func(a, b Asked) int { return a.At.Compare(b.At) })
	return list
}

// Answer answers a question of an agent, as [PermissionPrompter.Answer] does.
func (f *Fleet) Answer(a Answer) error {
	for _, m := range f.all() {
		if err := m.prompter.Answer(a); !errors.Is(err, ErrNoQuestion) {
			return err
		}
	}
	return fmt.Errorf("question %s: %w", a.Question, ErrNoQuestion)
}

func (f *Fleet) all() []*runner {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.members))
}

// Status returns the state of a relay. The error is [ErrUnknown] if there is no such relay.
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

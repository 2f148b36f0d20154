// Package relay gives a headless agent every entry of its inbox, exactly once.
//
// A headless Claude Code does not read its inbox. The relay of one member of one team
// watches that inbox, claims each unread row, and writes it to the agent's stdin, as
// Claude Code shows teammates' messages to a model. [Relay.Run] does it, until its
// context ends.
//
// # Exactly once
//
// The ledger is the queue. A row goes through these steps, each committed before
// the next is taken:
//
//  1. claimed: the delivery is in the ledger; then the row is marked as read and as
//     relayed by that delivery, in one edit under the lock of the inbox. So neither
//     the agent's own poller nor another relay takes it, too.
//  2. written: the exact bytes of the frame that it goes into, and the frame's
//     uuid, are in the ledger; then they go to the agent's stdin.
//  3. accepted, done: what the agent itself says of that uuid.
//
// After a crash of this process, of the agent, or of both, the agent's transcript tells
// whether it had taken the frame. If not, the same bytes are written again, and an agent
// that knows the uuid runs nothing. If it had, and its turn was cut, a nudge tells the agent
// once to go on.
//
// A frame of several rows with which the agent died twice, and which is not in its
// transcript, is split, and its rows are sent one by one: one of them may be what kills it.
//
// One frame is in flight at a time, since of several that wait an agent remembers only
// one. What waits when the agent is free becomes one frame.
//
// # Idle agents
//
// With [Options.IdleExit] the relay ends an agent that has nothing to do, and starts it
// again for the next message.
//
// # Agents that answer each other
//
// Two agents that have answered each other [MaxExchanges] times within a minute would
// go on for ever. The messages of the sender are then held: they stay unread in the
// inbox until [ledger.Holds.Release]. An exchange is a message that comes after the
// member has written to its sender; a burst is none. A person holds a sender with
// [ledger.Holds.Hold], at any time: what was claimed before is delivered.
//
// # Authority
//
// A row of an inbox is text. It reaches the agent inside a teammate-message
// wrapper that it cannot leave, never as plain text, as a command or as a change
// of mode. Only [Relay.Prompt], which is for a person, gives those. The mode of a frame
// is committed with it, and an agent is resumed in that: what was sent in plan mode never
// runs with wider permissions, even after a crash.
//
// # What is not promised
//
// A program that acknowledges nothing gets each message at least once, and the
// reason of the delivery says so.
//
// Claude Code writes its transcript about 0.1 s late; see package claude. If it is killed
// in between, it does that step of its turn again. The relay ends an agent by closing its
// stdin, so that it writes the rest. It kills one that did not end in time, and one that
// an earlier relay left behind and that has had its time.
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/pipe"
	"teambridge/relay/wire"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/watch"
)

// Limits of a relay.
const (
	MaxAhead   = 64       // deliveries that are claimed and not done; further rows stay unread in the file
	MaxRows    = 10       // rows that become one frame
	MaxBytes   = 64 << 10 // of their wrapped texts; a larger row goes alone
	MaxDeaths  = 3        // of the agent with a frame in flight, before that counts as failed; one of several is split at 2, and its rows have 2 more
	MaxNudges  = 3        // for one frame whose turns are cut
	MaxStarts  = 5        // of an agent that dies at once, before the relay gives up
	deadWithin = 10 * time.Second
)

// Nudge is the prompt for an agent whose turn was cut off by a crash.
const Nudge = "The session was restarted. If the message above is finished, do nothing; else go on."

var (
	// ErrBusy means that another process relays this inbox already.
	ErrBusy = errors.New("another relay serves this inbox")
	// ErrDead means that the agent ended [MaxStarts] times without getting anywhere. The
	// next Run delivers the rows.
	ErrDead = errors.New("the agent does not stay alive")
	// ErrNotBegun means that the agent did not begin a message in time to be interrupted
	// in it. It is an [agent.ErrNotInFlight] too.
	ErrNotBegun = fmt.Errorf("the agent has not begun the message: %w", agent.ErrNotInFlight)
)

// OnCut says what becomes of a message whose turn was cut by a crash.
type OnCut string

// The ways to treat a cut turn.
const (
	NudgeAgent OnCut = "nudge"  // tell the agent once to go on
	ReportCut  OnCut = "report" // leave it at that, as a failed delivery
)

// Options says what to relay to whom. All but the last group is needed.
type Options struct {
	Team   *teams.Team
	Member string // whose inbox it is
	Locker *lockedfile.Locker
	Ledger *ledger.Ledger
	State  string // our state directory

	Runtime agent.Runtime // starts the agent
	Session string        // id of the first session, a UUID; empty: one is chosen

	// Mode is what a new session begins with. A session that is resumed keeps its own,
	// unless a flag of another Runtime.Command changes it.
	Mode mode.Mode

	OnCut       OnCut         // empty: [NudgeAgent]
	Predecessor time.Duration // how long an agent of an earlier relay may go on before it is ended; 0 is 30 s

	// IdleExit is how long an agent may be idle before it is ended; 0 is for ever. The
	// next message starts it again, on its session. Idle means that no turn runs, its
	// own or of a background task, and that nothing waits, in the queue or in the inbox.
	//
	// An agent is not ended if it has scheduled work, or leads a team that agents have
	// joined since it was started: they would end with it.
	IdleExit time.Duration

	// IdleReports says which reports that others are idle the agent gets; empty:
	// [IdleReportsThatTell]. The others are read in the inbox, and [ledger.Skipped] in the ledger.
	IdleReports IdleReports

	Timing Timing // the other durations

	// Held are the locks of the inbox, if the caller has them already, by [Hold]. Run then neither takes
	// nor releases them.
	Held *Held

	// Journal, if not nil, gets the envelopes of what the agent says and does, each once and
	// in order. What it did while it could not be written, or no relay ran, is taken from
	// the agent's conversation. It delays nothing.
	Journal *journal.Journal

	// Each may be nil.
	Events   func(agent.Event)   // gets everything that the agent prints
	Envelope func(wire.Envelope) // gets each envelope once it is in Journal, if it was not there before
	Report   func(Status)        // is called with each change of the status
	Recorded func()              // is called when [ledger.Events.After] may have more; it must not wait
	Warn     func(error)         // gets errors that do not end the relay
	Now      func() time.Time    // the clock by which messages are claimed
}

// Timing says how long a relay waits, and for what. A field that is 0 is the
// default.
type Timing struct {
	// Backoff is how long after its death an agent is started again, by default 0.5 s. It
	// doubles with each death in a row, up to 60 times as long.
	Backoff time.Duration

	// Startup is how long an agent has to stay alive before it gets a frame that the last
	// one died with, by default 2 s. Only then is its death held against the frame.
	Startup time.Duration

	// Retry is the time until what failed for a while is tried again: the inbox was
	// locked, or a disk full. The default is 2 s.
	Retry time.Duration

	// Look is how often the ledger is asked whether another process has put something back
	// into the queue, by default 2 s. It takes 0.1 ms.
	Look time.Duration

	Handover time.Duration // how long a relay waits for the lock of one before it, by default [lockedfile.Handover]
}

func (t Timing) withDefaults() Timing {
	t.Backoff = cmp.Or(t.Backoff, 500*time.Millisecond)
	t.Startup = cmp.Or(t.Startup, 2*time.Second)
	t.Retry = cmp.Or(t.Retry, 2*time.Second)
	t.Look = cmp.Or(t.Look, 2*time.Second)
	t.Handover = cmp.Or(t.Handover, lockedfile.Handover)
	return t
}

// State is what a relay is doing.
type State string

// The states.
const (
	Starting State = "starting" // the agent is being started
	Waiting  State = "waiting"  // an earlier relay, or an agent of one, still runs
	Idle     State = "idle"     // nothing waits
	Working  State = "working"  // a frame is in flight
	Asleep   State = "asleep"   // the agent was idle and was ended; the next message starts it
	BackOff  State = "backing off"
	Dead     State = "dead"

	// Of a session that a person has at a terminal, too: see [ledger.Handoff].
	Local     State = "local"     // it is there; rows wait in the inbox, and a prompt brings it here
	Switching State = "switching" // it is being moved to or from there
)

// Status is what can be said of a relay.
type Status struct {
	State    State
	PID      int    // of the agent; 0 while there is none
	Session  string // of the agent
	Queue    int    // deliveries that are claimed and not done
	InFlight string // uuid of the frame
	Deaths   int    // of the agent, since Run began
	LastDone time.Time
	Reason   string // why it waits, is asleep or is dead, or what it holds
}

// Relay serves one inbox. Make it with [New].
type Relay struct {
	opts Options
	post inbox.InboxKey
	box  *inbox.Inbox
	wake chan struct{}

	finish    sync.Once
	finishing chan struct{} // closed by Finish

	mu     sync.Mutex
	status Status
	child  agent.Agent   // for Interrupt, from other goroutines
	began  bool          // the turn of the frame in flight runs
	moved  chan struct{} // closed, and replaced, when one of these has changed

	ledger   store         // of opts.Ledger, but in tests
	archive  archive       // opts.Journal, but in tests; nil if there is none
	patience time.Duration // of an interrupt, until the frame begins
	grace    agent.Grace   // how an agent is ended: it may finish its turn first
	at       func(moment)  // tests of what other processes do to the ledger in between
}

// moment is an instant of the loop.
type moment string

// The moments between two steps that tests know.
const (
	claimed   moment = "claimed"   // rows are in the ledger and marked in the file; the ledger does not say so yet
	stuck     moment = "stuck"     // claiming has failed, and is tried again in a while
	looked    moment = "looked"    // it is known what waits; no frame of it is made
	committed moment = "committed" // a frame is in the ledger; it was not written
	idle      moment = "idle"      // the agent has been idle for long enough; its stdin is open
	closing   moment = "closing"   // its stdin was closed, since it was idle
	exited    moment = "exited"    // it has exited after that; the ledger does not say so yet
	asleep    moment = "asleep"    // the ledger says that it was ended
)

// New returns a relay. It starts nothing. The errors are those of an inbox's
// name and of a team that is gone.
func New(ctx context.Context, opts Options) (*Relay, error) {
	box, err := inbox.Open(opts.Team, opts.Member, opts.Locker)
	if err != nil {
		return nil, err
	}
	c, err := opts.Team.Config(ctx)
	if err != nil {
		return nil, err
	}
	opts.OnCut = cmp.Or(opts.OnCut, NudgeAgent)
	opts.Predecessor = cmp.Or(opts.Predecessor, 30*time.Second)
	opts.Timing = opts.Timing.withDefaults()
	if opts.Events == nil {
		opts.Events = func(agent.Event) {}
	}
	if opts.Report == nil {
		opts.Report = func(Status) {}
	}
	if opts.Recorded == nil {
		opts.Recorded = func() {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	r := &Relay{
		opts: opts, post: inbox.KeyOf(opts.Team, c, opts.Member), box: box.Cached(), wake: make(chan struct{}, 1),
		finishing: make(chan struct{}), moved: make(chan struct{}), ledger: storeOf(opts.Ledger), patience: holdInterrupt, grace: grace, at: func(moment) {},
	}
	if opts.Journal != nil {
		r.archive = opts.Journal
	}
	return r, nil
}

// Key returns what the relay's deliveries are kept under in the ledger.
func (r *Relay) Key() inbox.InboxKey { return r.post }

// Status returns what the relay is doing.
func (r *Relay) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// holdInterrupt is how long an interrupt waits for the turn that it is to stop. An agent
// that is started needs a second or two to begin it.
const holdInterrupt = 10 * time.Second

// Interrupt stops the turn of the frame in flight: its messages become cancelled, and are
// not sent again. An agent that has not begun the frame would run it after the interrupt,
// so Interrupt waits until it does, for 10 s at most: [ErrNotBegun].
// [agent.ErrNotInFlight]: none is in flight, or it has ended meanwhile.
func (r *Relay) Interrupt(ctx context.Context) error {
	bound := time.NewTimer(r.patience)
	defer bound.Stop()
	for first := ""; ; {
		r.mu.Lock()
		child, frame, began, moved := r.child, r.status.InFlight, r.began, r.moved
		r.mu.Unlock()
		if first == "" {
			first = frame
		}
		if frame == "" || frame != first {
			return fmt.Errorf("relay: interrupt %s: %w", r.opts.Member, agent.ErrNotInFlight)
		}
		if child != nil && began {
			return child.Interrupt(ctx, frame)
		}
		select {
		case <-moved:
		case <-bound.C:
			return fmt.Errorf("relay: interrupt %s: nothing was stopped: %w", r.opts.Member, ErrNotBegun)
		case <-ctx.Done():
			return fmt.Errorf("relay: interrupt %s: nothing was stopped: %w", r.opts.Member, context.Cause(ctx))
		}
	}
}

// move changes what Interrupt looks at.
func (r *Relay) move(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.moved)
	r.moved = make(chan struct{})
}

// poke makes the loop look at the ledger and the inbox.
func (r *Relay) poke() { pipe.Poke(r.wake) }

// Run relays until ctx ends, and returns nil then; the agent is ended after it has
// finished its turn, or after 30 s. Run returns [ErrBusy] if another process still relays
// this inbox after [Timing.Handover] (one with another state directory is noticed on Linux
// alone), [ErrDead], [teams.ErrTeamGone], and errors of the ledger, unless that is only
// locked or its disk full. What was claimed is delivered by the next Run.
func (r *Relay) Run(ctx context.Context) (err error) {
	held := r.opts.Held
	if held == nil {
		if held, err = r.hold(ctx); err != nil || held == nil {
			return err
		}
		defer func() { err = errors.Join(err, held.Release()) }()
	}
	running, stop := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	w := watch.New(watch.Options{
		Root: r.opts.Team.Root().Path(), Only: func(team string) bool { return team == r.opts.Team.Name() }, Warn: r.opts.Warn,
	})
	helpers.Go(func() {
		if err := w.Run(running); err != nil {
			r.opts.Warn(err)
		}
	})
	helpers.Go(func() { r.watch(running, w) })
	l := &loop{Relay: r, ledgerWriter: ledgerWriter{Relay: r}, inboxState: inboxState{unwritten: map[string]bool{}}}
	if l.queue, err = newQueue(); err == nil {
		l.recorder, err = newRecorder(r)
	}
	if err == nil {
		err = l.run(running)
		l.recorder.end()
	}
	stop()
	helpers.Wait()
	return err
}

// Finish makes Run return nil after the turn that runs, however long that takes. Nothing more is claimed or begun: what
// waits is for the next relay.
func (r *Relay) Finish() { r.finish.Do(func() { close(r.finishing) }) }

// watch pokes the loop when something happens to the inbox or the team.
func (r *Relay) watch(ctx context.Context, w *watch.Watcher) {
	for {
		e, err := w.Next(ctx)
		if err != nil {
			return
		}
		relevant := strings.EqualFold(e.Inbox, r.opts.Member) || e.Inbox == "" // where case is ignored, the file may be spelled otherwise
		e.Close()
		if relevant {
			r.poke()
		}
	}
}

// set changes the status and reports it.
func (r *Relay) set(change func(*Status)) {
	var before, now Status
	r.move(func() {
		before = r.status
		change(&r.status)
		now = r.status
	})
	if now != before {
		r.opts.Report(now)
	}
}

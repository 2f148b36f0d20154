// Package relay gives a headless agent every entry of its inbox, exactly once.
//
// A headless Claude Code does not read its inbox. The relay of one member of one team watches that inbox,
// claims each unread row, and writes it to the agent's stdin, in the form in which Claude Code shows
// teammates' messages to a model. [Relay.Run] does this until its context ends.
//
// # Exactly once
//
// The ledger is the queue. A row goes through these steps, each committed before the next:
//
//  1. claimed: the delivery is in the ledger; then the row is marked as read and as relayed by that delivery, in one
//     edit under the lock of the inbox. After that, neither the agent's own poller nor another relay takes it.
//  2. written: the exact bytes of the frame that it goes into, and the frame's
//     uuid, are in the ledger; then they go to the agent's stdin.
//  3. accepted, done: as reported by the agent for that uuid.
//
// After a crash of this process, of the agent, or of both, the agent's transcript shows whether the agent had taken
// the frame. If not, the same bytes are written again; an agent that knows the uuid ignores them. If it had, and the
// turn was cut, a nudge asks the agent to continue.
//
// If the agent dies twice with a frame of several rows that is not in its transcript, the rows are sent one
// by one, since one of them may be what kills it.
//
// One frame is in flight at a time, since an agent remembers only one of several waiting frames. All messages
// that wait when the agent is free become one frame.
//
// # Idle agents
//
// With [Options.IdleExit] the relay ends an agent that has nothing to do, and starts it
// again for the next message.
//
// # Agents that answer each other
//
// Two agents that have answered each other [MaxExchanges] times within a minute would go on for ever. The
// sender's messages are then held: they stay unread in the inbox until [ledger.Holds.Release]. An exchange
// is a message that arrives after the member has written to its sender; a burst counts as one at most. A
// person holds a sender with [ledger.Holds.Hold], at any time: what was claimed before is delivered.
//
// # Authority
//
// A row of an inbox is text. It reaches the agent inside a teammate-message wrapper that it cannot leave,
// never as plain text, as a command or as a change of mode. Only [Relay.Prompt], which is for people, can
// send those. A frame's mode is committed with it, and an agent is resumed in that mode: a message sent in
// plan mode never runs with wider permissions, even after a crash.
//
// # What is not promised
//
// A program that acknowledges nothing gets each message at least once, as the delivery's reason says.
//
// Claude Code writes its transcript about 0.1 s late; see package claude. If it is killed in between, it repeats that
// step of its turn. The relay ends an agent by closing its stdin, so that the agent writes the rest. It kills only an
// agent that does not end in time, including one that an earlier relay left behind.
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
	MaxAhead   = 64       // deliveries that are claimed and not done; more rows stay unread in the file
	MaxRows    = 10       // rows in one frame
	MaxBytes   = 64 << 10 // of wrapped texts in one frame; a larger row goes alone
	MaxDeaths  = 3        // agent deaths before a frame fails; several rows are split after 2, and each has 2 more
	MaxNudges  = 3        // for one frame whose turns are cut
	MaxStarts  = 5        // of an agent that dies at once before the relay gives up
	deadWithin = 10 * time.Second
)

// Nudge is the prompt for an agent whose turn was cut off by a crash.
const Nudge = "The session was restarted. If the message above is finished, do nothing; else go on."

var (
	// ErrBusy means that another process relays this inbox already.
	ErrBusy = errors.New("another relay serves this inbox")
	// ErrDead means that the agent ended [MaxStarts] times without any progress. The next Run delivers the
	// rows.
	ErrDead = errors.New("the agent does not stay alive")
	// ErrNotBegun means that the agent did not begin a message in time for an interrupt. It is also an
	// [agent.ErrNotInFlight].
	ErrNotBegun = fmt.Errorf("the agent has not begun the message: %w", agent.ErrNotInFlight)
)

// OnCut selects what happens to a message whose turn was cut by a crash.
type OnCut string

// Ways to handle a cut turn.
const (
	NudgeAgent OnCut = "nudge"  // ask the agent to continue, at most [MaxNudges] times
	ReportCut  OnCut = "report" // report a failed delivery
)

// Options configure a relay. All but the last group are required.
type Options struct {
	Team   *teams.Team
	Member string // the owner of the inbox
	Locker *lockedfile.Locker
	Ledger *ledger.Ledger
	State  string // our state directory

	Runtime agent.Runtime // starts the agent
	Session string        // id of the first session, a UUID; empty for a new one

	// Mode is the mode of a new session. A resumed session keeps its own, unless a flag of a changed
	// Runtime.Command overrides it.
	Mode mode.Mode

	OnCut       OnCut         // empty for [NudgeAgent]
	Predecessor time.Duration // how long an agent of an earlier relay may keep running; 0 is 30 s

	// IdleExit is how long an agent may be idle before it is ended; 0 is for ever. The next message resumes
	// its session, even if another relay has taken over. An agent is idle if no turn runs, not even of a
	// background task, and nothing waits in the queue or in the inbox.
	//
	// An agent is kept if it has scheduled work, or if agents have joined its team since it started: ending
	// it would end these too.
	IdleExit time.Duration

	// IdleReports selects which reports of idle agents are relayed; empty for [IdleReportsWithContent]. The
	// others are marked as read in the inbox, and [ledger.Skipped] in the ledger.
	IdleReports IdleReports

	Timing Timing // all other durations

	// Held are the locks of the inbox if the caller already has them from [Hold]. Run then neither takes nor
	// releases them.
	Held *Held

	// Journal, if not nil, receives an envelope for everything the agent says and does, once each and in
	// order. Envelopes that were missed, because the journal could not be written or no relay ran, are read
	// from the agent's conversation. A slow journal delays nothing.
	Journal *journal.Journal

	// Poked, if not nil, signals each change of the ledger. It is then polled [Timing.Poll] after a signal, and every
	// 30 s; else, at intervals of [Timing.Poll].
	Poked <-chan struct{}

	// Each of these may be nil.
	Events   func(agent.Event)   // receives all output of the agent
	Envelope func(wire.Envelope) // receives each envelope that is new in Journal
	Report   func(Status)        // receives each change of the status
	Recorded func()              // is called when [ledger.Events.After] may have more; it must not block
	Warn     func(error)         // receives errors that do not end the relay
	Now      func() time.Time    // the clock for claiming messages
}

// Timing has the delays and timeouts of a relay. A zero field means the default.
type Timing struct {
	// Backoff is the delay before a dead agent is restarted, by default 0.5 s. It doubles with each death in
	// a row, up to 60 times.
	Backoff time.Duration

	// Startup is how long an agent must stay alive before it gets a frame that its predecessor died with, by
	// default 2 s. Only a death after that counts against the frame.
	Startup time.Duration

	// Retry is the delay before a temporary failure is tried again, such as a locked inbox or a full disk.
	// The default is 2 s.
	Retry time.Duration

	// Poll is how often the ledger is checked for deliveries that another process has requeued, by default 2
	// s. A check takes 0.1 ms.
	Poll time.Duration

	Handover time.Duration // how long a relay waits for its predecessor's lock, by default [lockedfile.Handover]
}

func (t Timing) withDefaults() Timing {
	t.Backoff = cmp.Or(t.Backoff, 500*time.Millisecond)
	t.Startup = cmp.Or(t.Startup, 2*time.Second)
	t.Retry = cmp.Or(t.Retry, 2*time.Second)
	t.Poll = cmp.Or(t.Poll, 2*time.Second)
	t.Handover = cmp.Or(t.Handover, lockedfile.Handover)
	return t
}

// State is the state of a relay. While an agent runs, it is Idle or Working instead of [ledger.RelayRunning].
type State = ledger.RelayState

// The states of a relay that runs an agent or waits for one. While its session is at a terminal, the state is
// [ledger.RelayLocal] or [ledger.RelaySwitching].
const (
	Starting = ledger.RelayStarting
	Waiting  = ledger.RelayWaiting // an earlier relay or its agent still runs
	Asleep   = ledger.RelayAsleep
	BackOff  = ledger.RelayBackOff
	Dead     = ledger.RelayDead

	Idle    State = "idle"    // nothing waits
	Working State = "working" // a frame is in flight; in an [Info], deliveries are open
)

// Status is a snapshot of a running relay.
type Status struct {
	State    State
	PID      int    // of the agent; 0 while there is none
	Session  string // of the agent
	Queue    int    // deliveries claimed and not done
	InFlight string // uuid of the frame
	Deaths   int    // of the agent, since Run began
	LastDone time.Time
	Reason   string // why it waits, sleeps or died, or which senders are held
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
	child  agent.Agent   // for Interrupt, which runs in other goroutines
	began  bool          // the turn of the frame in flight is running
	moved  chan struct{} // closed and replaced when child or began changes

	ledger   store         // of opts.Ledger, except in tests
	archive  archive       // opts.Journal, except in tests; nil if there is none
	patience time.Duration // how long an interrupt waits for the frame to begin
	grace    agent.Grace   // how long an agent may take to end its turn and exit
	at       func(moment)  // lets tests act as other processes at each moment
}

// moment is a point in the loop at which tests intervene.
type moment string

// The moments.
const (
	claimed   moment = "claimed"   // rows are in the ledger and marked in the file; the mark is not yet recorded
	stuck     moment = "stuck"     // claiming has failed and will be retried
	queued    moment = "queued"    // the waiting deliveries are known; no frame is made yet
	committed moment = "committed" // a frame is in the ledger but not written
	idle      moment = "idle"      // the agent has been idle long enough; its stdin is open
	closing   moment = "closing"   // its stdin was closed because it was idle
	exited    moment = "exited"    // it has exited after that; this is not yet recorded
	asleep    moment = "asleep"    // its end is recorded
)

// New returns a relay, and starts nothing. It fails if the member's name cannot be an inbox, or the team is
// gone.
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
		r.archive = opts.Journal.Envelopes
	}
	return r, nil
}

// Key returns the ledger key of the relay's deliveries.
func (r *Relay) Key() inbox.InboxKey { return r.post }

// Status returns the current status.
func (r *Relay) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// holdInterrupt is how long an interrupt waits for its turn to begin. A newly started agent needs a second or
// two to begin one.
const holdInterrupt = 10 * time.Second

// Interrupt stops the turn of the frame in flight: its messages become cancelled, and are not sent again. An
// agent that has not begun the frame would run it after the interrupt, so Interrupt waits up to 10 s for it
// to begin, and then fails with [ErrNotBegun]. It fails with [agent.ErrNotInFlight] if no frame is in flight,
// or its turn has just ended.
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

// move changes state that Interrupt reads, and wakes it.
func (r *Relay) move(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.moved)
	r.moved = make(chan struct{})
}

// poke makes the loop check the ledger and the inbox.
func (r *Relay) poke() { pipe.Poke(r.wake) }

// Run relays until ctx ends, and then returns nil; the agent is ended after its turn, or after 30 s. Run
// returns [ErrBusy] if another process still relays this inbox after [Timing.Handover] (a process with
// another state directory is noticed only on Linux), [ErrDead], [teams.ErrTeamGone], and errors of the ledger
// other than a lock or a full disk. Deliveries that were claimed are sent by the next Run.
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
	l := &loop{Relay: r, ledgerWriter: ledgerWriter{Relay: r}, intake: intake{Relay: r, unwritten: map[string]bool{}}}
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

// Finish makes Run return nil after the running turn, however long that takes. Nothing more is claimed or
// begun: waiting messages are for the next relay.
func (r *Relay) Finish() { r.finish.Do(func() { close(r.finishing) }) }

// watch pokes the loop when the inbox or the team changes.
func (r *Relay) watch(ctx context.Context, w *watch.Watcher) {
	for {
		e, err := w.Next(ctx)
		if err != nil {
			return
		}
		relevant := strings.EqualFold(e.Inbox, r.opts.Member) || e.Inbox == "" // the disk may ignore case
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

package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
)

// Options are the options of [New]. Root, Ledger, Wire and Deliver are required.
type Options struct {
	Root   string // the Claude root of the outbox
	Self   ledger.Link
	Ledger *ledger.Ledger
	Wire   Wire

	// Deliver delivers a message. It must deliver once per N: it is called again if it failed, or if its
	// success was not recorded. It returns the message with its Stage, which is at least
	// [ledger.StageVerified], and its place. An error means that the message must be tried again later.
	Deliver func(context.Context, Message) (ledger.Incoming, error)
	// States returns the current states of delivered messages, in their order. If States is nil, they stay unknown.
	States func(context.Context, []ledger.Incoming) ([]ledger.Incoming, error)
	// Teams returns the teams that a machine may write to. If Teams is nil, it may write to none.
	Teams func(ctx context.Context, machine string) ([]Team, error)

	Program string // our program's version
	Changed func() // called after each change of the ledger
	Warn    func(error)

	Every time.Duration // the interval of presences; 0: 15 s
	Late  time.Duration // how old a stored message must be to be sent again if the hub has lost it; 0: 5 s
	Retry time.Duration // the pause after a failure; 0: 250 ms

	page int // how many messages are handled, or queried, at once; 0: 500
}

// Link carries the messages of one ledger to and from other machines while it runs.
type Link struct {
	opts     Options
	instance string

	mu      sync.Mutex
	peers   map[string]*peer
	refused map[string][]ledger.Receipt // receipts to send
	queries map[string][]string         // ids to query
	working map[recipient]bool
	waiting map[recipient]time.Time // when a skipped recipient is tried again

	announced map[string]string // the last presence sent to each machine
	instances map[string]string // of machines, from their latest presences
	offered   map[string]string // the ignored parts of machines' latest presences

	refusals map[string]*Refusals // by machine
	stuck    string               // why the latest arrival could not be recorded; "" if it was recorded

	arrived, outcomes, present chan struct{}
}

type peer struct {
	wake  chan struct{} // the outbox may have something to send
	retry chan struct{} // a failed write may now succeed
	stop  context.CancelFunc

	full    bool                 // the last frame had no room for more messages
	unheard map[string]time.Time // when messages without a receipt were published
}

type recipient struct{ team, member string }

// Expiry is how long a message waits for its machine. The hub keeps messages for a shorter time, and ledgers
// keep ids for a longer one.
const Expiry = 8 * 24 * time.Hour

// remembered is how long ids of incoming messages are kept.
const remembered = 30 * 24 * time.Hour

// Lock is the key of a lock: a process holds it while it runs the links of a state directory.
const Lock = "running links"

// New returns a Link. It starts nothing.
func New(opts Options) *Link {
	opts.page = cmp.Or(opts.page, 500)
	opts.Every, opts.Late, opts.Retry = cmp.Or(opts.Every, 15*time.Second), cmp.Or(opts.Late, 5*time.Second), cmp.Or(opts.Retry, 250*time.Millisecond)
	if opts.Changed == nil {
		opts.Changed = func() {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Link{
		opts: opts, instance: uuid.NewString(), peers: map[string]*peer{}, refused: map[string][]ledger.Receipt{}, queries: map[string][]string{},
		working: map[recipient]bool{}, waiting: map[recipient]time.Time{}, announced: map[string]string{}, instances: map[string]string{},
		offered: map[string]string{}, refusals: map[string]*Refusals{},
		arrived: make(chan struct{}, 1), outcomes: make(chan struct{}, 1), present: make(chan struct{}, 1),
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Poke makes the link check the ledger for new messages, machines, and states of incoming messages.
func (l *Link) Poke() {
	signal(l.arrived)
	signal(l.outcomes)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.peers {
		signal(p.wake)
	}
}

func (l *Link) wake(machine string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.peers[machine]; p != nil {
		signal(p.wake)
	}
}

// Run carries messages until ctx ends. It returns an error if the ledger can no longer be used.
func (l *Link) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	defer parts.Wait()
	part := func(run func(context.Context) error) {
		parts.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	part(l.read)
	part(func(ctx context.Context) error { return l.deliver(ctx, &parts) })
	part(l.follow)
	part(l.announce)
	part(l.expire)
	err := l.attend(ctx, &parts)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// attend runs a writer for each linked machine.
func (l *Link) attend(ctx context.Context, parts *sync.WaitGroup) error {
	for {
		list, err := l.opts.Ledger.Links.Machines(ctx, l.opts.Root)
		if err != nil && l.failed(ctx, "cannot read the links", err) {
			return err
		}
		if err == nil {
			l.mu.Lock()
			there := map[string]bool{}
			for _, m := range list {
				there[m.Name] = true
				if l.peers[m.Name] == nil {
					writing, stop := context.WithCancel(ctx)
					p := &peer{wake: make(chan struct{}, 1), retry: make(chan struct{}, 1), stop: stop, unheard: map[string]time.Time{}}
					l.peers[m.Name] = p
					parts.Go(func() { l.write(writing, m.Name, p) })
					signal(l.present)
				}
			}
			for name, p := range l.peers {
				if !there[name] {
					p.stop()
					delete(l.peers, name)
				}
			}
			l.mu.Unlock()
		}
		if !pause(ctx, 2*time.Second) {
			return nil
		}
	}
}

// failed warns of an error, unless ctx has ended. over reports whether the ledger is no longer usable.
func (l *Link) failed(ctx context.Context, what string, err error) (over bool) {
	if ctx.Err() != nil {
		return false
	}
	l.opts.Warn(fmt.Errorf("%s: %w", what, err))
	return errors.Is(err, ledger.ErrMoved)
}

// pause waits for d or for wake. It reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration, wake ...<-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	var woken <-chan struct{}
	if len(wake) > 0 {
		woken = wake[0]
	}
	select {
	case <-t.C:
	case <-woken:
	case <-ctx.Done():
		return false
	}
	return true
}

// Refusals counts the refused input of a machine since the link started.
type Refusals struct {
	Count int    // refused messages and frames, and presences with new faults
	Why   string // the last reason
}

// Refused returns the count of refused input of a machine.
func (l *Link) Refused(machine string) Refusals {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.refusals[machine]; r != nil {
		return *r
	}
	return Refusals{}
}

// Stuck returns why the latest arrival cannot be recorded, or "". While it cannot, all later frames stay at
// the hub.
func (l *Link) Stuck() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stuck
}

// leftOut counts refused input of a machine.
func (l *Link) leftOut(machine string, n int, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave(machine, n, why)
}

// leave is leftOut for a caller that holds l.mu.
func (l *Link) leave(machine string, n int, why string) {
	if n == 0 {
		return
	}
	r := l.refusals[machine]
	if r == nil {
		r = &Refusals{}
		l.refusals[machine] = r
	}
	r.Count, r.Why = r.Count+n, words(why)
}

// stays records why an arrival of a machine cannot be recorded, or with nil that it was recorded.
func (l *Link) stays(machine string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stuck = ""; err != nil {
		l.stuck = fmt.Sprintf("data from %s cannot be recorded; it stays at the hub, and so does all later data: %v", cmp.Or(machine, "the hub"), err)
	}
}

// soon is how long a receipt for an arrived message waits for its delivery. A message that is delivered at
// once then gets one receipt instead of two.
const soon = 20 * time.Millisecond

// expire fails messages that have waited too long, and removes old ids.
func (l *Link) expire(ctx context.Context) error {
	for {
		n, err := l.opts.Ledger.Outbox.Expire(ctx, time.Now().Add(-Expiry), "its machine did not take it within 8 days")
		if err == nil {
			err = l.opts.Ledger.Arrivals.Prune(ctx, time.Now().Add(-remembered))
		}
		if err != nil && l.failed(ctx, "cannot remove old messages", err) {
			return err
		}
		if n > 0 {
			l.opts.Changed()
		}
		if !pause(ctx, time.Hour) {
			return nil
		}
	}
}

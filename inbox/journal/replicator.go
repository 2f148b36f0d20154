package journal

import (
	"context"
	"fmt"
	"time"

	"teambridge/inbox/ledger"
)

// ReplicatorOptions are the options of [NewReplicator]. Ledger and Journal are needed.
type ReplicatorOptions struct {
	Ledger  *ledger.Ledger
	Journal *Journal

	// Every is the interval at which the ledger is read without [Replicator.Poke],
	// for events of other processes. 0 means 2 s.
	Every time.Duration
	// Notified promises that Poke is called after each change of the ledger. The ledger is then read at intervals only
	// after a failure.
	Notified bool

	// Copied, if not nil, is called after events were copied.
	Copied func()

	// Warn, if not nil, is called once when copying begins to fail.
	Warn func(error)
}

// A Replicator copies events while it runs. Make one with [NewReplicator].
type Replicator struct {
	opts ReplicatorOptions
	wake chan struct{}
	said string // version of the person's inboxes when they were last observed
}

// NewReplicator returns a Replicator. It starts nothing.
func NewReplicator(opts ReplicatorOptions) *Replicator {
	if opts.Every == 0 {
		opts.Every = 2 * time.Second
	}
	if opts.Copied == nil {
		opts.Copied = func() {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Replicator{opts: opts, wake: make(chan struct{}, 1)}
}

// Poke makes Run look for new events. It never blocks.
func (r *Replicator) Poke() {
	select {
	case r.wake <- struct{}{}:
	default: // one is pending
	}
}

// lastCopy limits how long Run may copy after its context has ended.
var lastCopy = 2 * time.Second // a variable for tests

// Run copies events until ctx ends, and then the remaining ones. It always returns nil: events that could not be
// copied stay in the ledger.
func (r *Replicator) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.opts.Every)
	defer ticker.Stop()
	failing := false
	step := func(ctx context.Context) {
		n, err := r.opts.Journal.copyAll(ctx, r.opts.Ledger, &r.said)
		if n > 0 {
			r.opts.Copied()
		}
		if err != nil && ctx.Err() == nil && !failing {
			r.opts.Warn(fmt.Errorf("what is sent and relayed is not recorded: %w", err))
		}
		failing = err != nil
	}
	for {
		wake, tick := r.wake, ticker.C
		if failing {
			wake = nil // try again at the next tick, not with each event
		}
		step(ctx)
		if r.opts.Notified && !failing {
			tick = nil
		}
		select {
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCopy)
			defer cancel()
			step(ending)
			return nil
		case <-wake:
		case <-tick:
		}
	}
}

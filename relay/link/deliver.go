package link

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"teambridge/inbox/ledger"
)

// deliver delivers arrived messages, in order for each recipient. A delay for one recipient does not delay
// the others.
func (l *Link) deliver(ctx context.Context, parts *sync.WaitGroup) error {
	for {
		next, err := l.hand(ctx, parts)
		if err != nil && l.failed(ctx, "cannot deliver messages", err) {
			return err
		}
		if err != nil {
			next = l.opts.Retry
		}
		if !pause(ctx, next, l.arrived) {
			return nil
		}
	}
}

// hand passes arrived messages to one worker per recipient, and returns when to check again.
func (l *Link) hand(ctx context.Context, parts *sync.WaitGroup) (next time.Duration, err error) {
	next = time.Minute
	l.mu.Lock()
	// Copied before the ledger is read: if a worker ended between two pages, messages on the second page
	// would overtake those that it left on the first.
	busy := maps.Clone(l.working)
	for r, until := range l.waiting {
		if wait := time.Until(until); wait > 0 {
			next, busy[r] = min(next, wait), true
		}
	}
	l.mu.Unlock()
	var after int64
	for {
		list, err := l.opts.Ledger.Arrivals.After(ctx, after, l.opts.page)
		if err != nil || len(list) == 0 {
			return next, err
		}
		after = list[len(list)-1].N
		work := map[recipient][]ledger.Incoming{}
		for _, m := range list {
			if r := (recipient{m.Team, m.Member}); !busy[r] {
				work[r] = append(work[r], m)
			}
		}
		l.mu.Lock()
		for r, list := range work {
			l.working[r] = true
			parts.Go(func() { l.deliverTo(ctx, r, list) })
		}
		l.mu.Unlock()
		if len(work) > 0 || len(list) < l.opts.page {
			return next, nil // a worker looks for more when it ends
		}
	}
}

// deliverTo delivers messages to one recipient. After a failure, the recipient is skipped for a while.
func (l *Link) deliverTo(ctx context.Context, r recipient, list []ledger.Incoming) {
	var failed error
	for len(list) > 0 && failed == nil && ctx.Err() == nil {
		n := min(len(list), deliveredAtOnce)
		failed = l.deliverSome(ctx, list[:n])
		list = list[n:]
	}
	if failed != nil {
		l.failed(ctx, fmt.Sprintf("messages to %s@%s wait", r.member, r.team), failed)
	}
	l.mu.Lock()
	delete(l.working, r)
	if delete(l.waiting, r); failed != nil {
		l.waiting[r] = time.Now().Add(4 * l.opts.Retry)
	}
	l.mu.Unlock()
	signal(l.arrived)
	signal(l.outcomes)
	l.opts.Changed()
}

// deliveredAtOnce is how many messages are delivered before their results are recorded. If the process is
// killed in between, they are delivered again under the same ids.
const deliveredAtOnce = 20

// deliverSome delivers messages to one recipient, in order, and records the results, even if one cannot be
// delivered now.
func (l *Link) deliverSome(ctx context.Context, list []ledger.Incoming) error {
	var done []ledger.Incoming
	var failed error
	for _, in := range list {
		m, err := MessageOf(in)
		var out ledger.Incoming
		if err == nil {
			out, err = l.opts.Deliver(ctx, m)
		}
		if failed = err; err != nil {
			break
		}
		if out.N = in.N; out.Stage == ledger.StageRefused {
			l.leftOut(in.Machine, 1, "a message: "+out.Reason)
		}
		done = append(done, out)
	}
	if len(done) > 0 {
		if err := l.opts.Ledger.Arrivals.Set(context.WithoutCancel(ctx), done...); err != nil {
			return cmp.Or(failed, err)
		}
		for _, m := range done {
			l.wake(m.Machine)
		}
	}
	return failed
}

// followedFor is how long a message is followed after it was taken: until then its agent's model may be seen to get it.
const followedFor = 24 * time.Hour

// follow updates the state of delivered messages.
func (l *Link) follow(ctx context.Context) error {
	if l.opts.States == nil {
		return nil
	}
	var older int64 // of the messages before the newest page, those below this number are next; 0: start again
	for {
		open, err := l.open(ctx, &older)
		var states, changed []ledger.Incoming
		if err == nil {
			states, err = l.opts.States(ctx, open)
		}
		for i, now := range states {
			if now.Stage != open[i].Stage {
				changed = append(changed, now)
			}
		}
		if err == nil && len(changed) > 0 {
			err = l.opts.Ledger.Arrivals.Set(ctx, changed...)
		}
		if err != nil && l.failed(ctx, "cannot update the state of delivered messages", err) {
			return err
		}
		if err == nil && len(changed) > 0 {
			for _, m := range changed {
				l.wake(m.Machine)
			}
			l.opts.Changed()
		}
		if !pause(ctx, time.Minute, l.outcomes) {
			return nil
		}
		if !pause(ctx, l.opts.Retry) { // group changes in quick succession
			return nil
		}
	}
}

// open returns delivered messages to look at: the newest page and, in turn, one of the pages before it, so that a look
// is quick even if many messages wait, and none of them is forgotten.
func (l *Link) open(ctx context.Context, older *int64) ([]ledger.Incoming, error) {
	since := time.Now().Add(-followedFor)
	open, err := l.opts.Ledger.Arrivals.Open(ctx, since, 0, l.opts.page)
	if err != nil || len(open) < l.opts.page {
		return open, err
	}
	if last := open[len(open)-1].N; *older == 0 || *older > last {
		*older = last
	}
	more, err := l.opts.Ledger.Arrivals.Open(ctx, since, *older, l.opts.page)
	if *older = 0; len(more) == l.opts.page {
		*older = more[len(more)-1].N
	}
	return append(open, more...), err
}

package pipe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// OutboxOptions are the sink and the limits of an [Outbox]. Send and Skipped
// must be set.
type OutboxOptions[T any] struct {
	// Send sends an item to the sink. [Outbox.Run] calls it for one item at a time. After an error, the same item is
	// sent again.
	Send func(ctx context.Context, item T) error

	// Skipped records an item that was given up, with the error of its last try. [Outbox.Run] calls it, and then
	// takes the next item.
	Skipped func(item T, err error)

	// Tries is how often an item is sent before it is skipped. The first wait between two tries is 50 ms; each later
	// one is twice as long, up to 5 s. 0: 10 tries, in about 16 s.
	Tries int

	// HoldFor is the longest time for which [Outbox.Hold] holds an item. 0: 250 ms.
	HoldFor time.Duration

	// MaxItems is how many items the outbox holds. Further items are refused with [ErrFull]. 0: as many as memory
	// holds.
	MaxItems int
}

const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second

	// maxReleased is how many released ids an outbox remembers. If one is
	// forgotten too early, its item goes out after HoldFor.
	maxReleased = 10_000
)

// Outbox sends items to a sink in the order in which they were pushed. An item may be held for a short time, and
// later items wait, too.
type Outbox[T any] struct {
	opts OutboxOptions[T]
	wake chan struct{} // holds one signal: Run checks again

	mu       sync.Mutex
	entries  fifo[outboxEntry[T]]
	pushed   uint64              // the number of items that were ever pushed
	flushed  uint64              // the first so many items are no longer held
	released map[string]struct{} // ids
	recent   fifo[string]        // the same ids, oldest first
	closed   bool

	running atomic.Bool
}

type outboxEntry[T any] struct {
	item  T
	n     uint64    // its number among all pushed items, from 1
	id    string    // the id that releases it
	until time.Time // when it is no longer held; zero if it never was
}

// NewOutbox returns an empty outbox. It sends nothing until [Outbox.Run] is called. The error names the invalid
// option.
func NewOutbox[T any](o OutboxOptions[T]) (*Outbox[T], error) {
	switch {
	case o.Send == nil || o.Skipped == nil:
		return nil, errors.New("pipe: new outbox: Send and Skipped must be set")
	case o.Tries < 0, o.HoldFor < 0, o.MaxItems < 0:
		return nil, fmt.Errorf("pipe: new outbox: Tries %d, HoldFor %v, MaxItems %d: none may be less than 0", o.Tries, o.HoldFor, o.MaxItems)
	}
	if o.Tries == 0 {
		o.Tries = 10
	}
	if o.HoldFor == 0 {
		o.HoldFor = 250 * time.Millisecond
	}
	return &Outbox[T]{opts: o, wake: make(chan struct{}, 1), released: map[string]struct{}{}}, nil
}

// Push adds an item at the end. It does not wait: it accepts the item, or refuses it with [ErrFull] or [ErrClosed].
func (o *Outbox[T]) Push(item T) error {
	return o.put(outboxEntry[T]{item: item})
}

// Hold is [Outbox.Push] for an item that must wait for other information, such as the title of a tool call. The item
// is held until [Outbox.Release] with id, even if that was called before, until [Outbox.Flush], or for HoldFor.
func (o *Outbox[T]) Hold(item T, id string) error {
	return o.put(outboxEntry[T]{item: item, id: id, until: time.Now().Add(o.opts.HoldFor)})
}

func (o *Outbox[T]) put(e outboxEntry[T]) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return fmt.Errorf("pipe: outbox: %w", ErrClosed)
	}
	if limit := o.opts.MaxItems; limit > 0 && o.entries.len() >= limit {
		return fmt.Errorf("pipe: outbox holds %d items, its limit: %w", limit, ErrFull)
	}
	o.pushed++
	e.n = o.pushed
	o.entries.push(e)
	o.signal()
	return nil
}

// Release ends the hold of all items with this id, including later ones. An outbox remembers the last 10,000 ids.
func (o *Outbox[T]) Release(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.released[id]; ok {
		return
	}
	if o.recent.len() == maxReleased {
		delete(o.released, o.recent.all()[0])
		o.recent.drop(1)
	}
	o.recent.push(id)
	o.released[id] = struct{}{}
	o.signal()
}

// Flush ends the hold of all items in the outbox.
func (o *Outbox[T]) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flushed = o.pushed
	o.signal()
}

// Close makes later pushes fail, and ends the hold of all items in the outbox. Run sends them and then returns.
// Closing again changes nothing.
func (o *Outbox[T]) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.flushed = o.pushed
	o.signal()
}

// Len returns the number of items that are neither sent nor skipped.
func (o *Outbox[T]) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.entries.len()
}

// Run sends the items until the outbox is closed and empty, or until ctx is done; then it returns ctx's error. Unsent
// items stay in the outbox, and another Run continues with them. If ctx ended while an item was being sent, that item
// is sent again, unless Send returned nil. Only one Run can be active; another one returns [ErrBusy].
func (o *Outbox[T]) Run(ctx context.Context) error {
	if !o.running.CompareAndSwap(false, true) {
		return fmt.Errorf("pipe: outbox: %w", ErrBusy)
	}
	defer o.running.Store(false)
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("pipe: outbox: %w", err)
		}
		item, wait, done := o.next()
		switch {
		case done:
			return nil
		case wait != 0:
			o.sleep(ctx, wait)
		case o.send(ctx, item):
			o.mu.Lock()
			o.entries.drop(1)
			o.mu.Unlock()
		}
	}
}

// next returns the first item if it can be sent. Otherwise it returns the longest wait before checking again; a
// negative wait has no limit. done means that no item will come.
func (o *Outbox[T]) next() (item T, wait time.Duration, done bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.entries.len() == 0 {
		return item, -1, o.closed
	}
	e := o.entries.all()[0]
	if _, released := o.released[e.id]; released || e.n <= o.flushed {
		return e.item, 0, false
	}
	return e.item, max(0, time.Until(e.until)), false
}

// send reports whether the item was sent or skipped. If not, ctx is done.
func (o *Outbox[T]) send(ctx context.Context, item T) bool {
	retry := firstRetry
	for try := 1; ; try++ {
		err := o.opts.Send(ctx, item)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if try == o.opts.Tries {
			o.opts.Skipped(item, err)
			return true
		}
		timer := time.NewTimer(retry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		retry = min(2*retry, lastRetry)
	}
}

// sleep waits for a signal, for ctx, or for d unless it is negative.
func (o *Outbox[T]) sleep(ctx context.Context, d time.Duration) {
	var timeout <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-o.wake:
	case <-timeout:
	case <-ctx.Done():
	}
}

func (o *Outbox[T]) signal() { Poke(o.wake) }

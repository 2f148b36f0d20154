package pipe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"teambridge/relay/mode"
)

// Options are the limits of a [Queue]. The zero value sets none.
type Options[T any] struct {
	// MaxItems is how many values the queue holds. Push refuses more with [ErrFull]. 0: as many as memory holds.
	MaxItems int

	// MaxBatch is how many values one batch holds. 0: no limit.
	MaxBatch int

	// MaxBytes limits the sum of the sizes of one batch. A value that is larger by itself is a batch of its own. 0:
	// no limit.
	MaxBytes int

	// Size returns the size of a value for MaxBytes, which requires it. It is called once for each value. A negative
	// size counts as 0.
	Size func(T) int
}

// Entry is one value of a [Queue], with the arguments of its Push.
type Entry[T any] struct {
	Item     T
	Mode     mode.Mode
	Isolated bool
}

// Batch is a result of [Queue.Next]: at least one value of one mode, in the order in which they were pushed; or one
// isolated value.
type Batch[T any] struct {
	Items    []T // owned by the caller
	Mode     mode.Mode
	Isolated bool
}

// Queue is a list of values that come out in batches of one mode. The zero value is a queue without limits.
type Queue[T any] struct {
	opts Options[T]

	mu      sync.Mutex
	entries fifo[queued[T]]
	waiters []*waiter // in the order of arrival; only the first may take
	closed  bool
}

type queued[T any] struct {
	Entry[T]
	size int
}

// NewQueue returns an empty queue. It refuses invalid options.
func NewQueue[T any](o Options[T]) (*Queue[T], error) {
	switch {
	case o.MaxItems < 0, o.MaxBatch < 0, o.MaxBytes < 0:
		return nil, fmt.Errorf("pipe: new queue: MaxItems %d, MaxBatch %d, MaxBytes %d: none may be less than 0", o.MaxItems, o.MaxBatch, o.MaxBytes)
	case o.MaxBytes > 0 && o.Size == nil:
		return nil, errors.New("pipe: new queue: MaxBytes is set and Size is not, so nothing can be counted")
	}
	return &Queue[T]{opts: o}, nil
}

// Push adds a value at the end, or refuses it with [ErrFull] or [ErrClosed].
func (q *Queue[T]) Push(item T, mode mode.Mode) error {
	_, err := q.push(Entry[T]{Item: item, Mode: mode}, false)
	return err
}

// PushIsolated is [Queue.Push] for a value that must be a batch of its own.
func (q *Queue[T]) PushIsolated(item T, mode mode.Mode) error {
	_, err := q.push(Entry[T]{Item: item, Mode: mode, Isolated: true}, false)
	return err
}

// PushIsolateAndClear clears the queue and pushes the value, in one step, and returns the cleared values, in order.
// On [ErrClosed] nothing is cleared.
func (q *Queue[T]) PushIsolateAndClear(item T, mode mode.Mode) (cleared []Entry[T], err error) {
	return q.push(Entry[T]{Item: item, Mode: mode, Isolated: true}, true)
}

func (q *Queue[T]) push(e Entry[T], only bool) (cleared []Entry[T], err error) {
	var size int
	if q.opts.Size != nil {
		size = max(0, q.opts.Size(e.Item))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, fmt.Errorf("pipe: push: %w", ErrClosed)
	}
	if only {
		cleared = q.clear()
	}
	if limit := q.opts.MaxItems; limit > 0 && q.entries.len() >= limit {
		return nil, fmt.Errorf("pipe: push: queue holds %d values, its limit: %w", limit, ErrFull)
	}
	q.entries.push(queued[T]{e, size})
	if q.entries.len()+len(cleared) == 1 {
		// Otherwise the first waiter was woken before, and will take.
		q.wake()
	}
	return cleared, nil
}

// Next takes the next batch out of the queue, and waits for one if the queue is empty. It fails with [ErrClosed] if
// the queue is closed and empty, with [ErrReset] if it was cleared while Next waited, or with the context's error. If
// the context is done, Next takes a batch only if one is ready.
func (q *Queue[T]) Next(ctx context.Context) (Batch[T], error) { return q.next(ctx, true) }

// Peek is [Queue.Next], but leaves the batch in the queue. Until Next, the batch can grow, be cleared, or go to
// another consumer.
func (q *Queue[T]) Peek(ctx context.Context) (Batch[T], error) { return q.next(ctx, false) }

// Len returns the number of queued values.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.entries.len()
}

// Reset clears the queue, ends each waiting Next with [ErrReset], and returns the cleared values, in order. A closed
// queue stays closed.
func (q *Queue[T]) Reset() (cleared []Entry[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiters {
		w.err = fmt.Errorf("pipe: next: %w", ErrReset)
		w.signal()
	}
	q.waiters = nil
	return q.clear()
}

// Close makes later pushes fail. Next still returns the queued values, and then [ErrClosed]. Closing again changes
// nothing.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake()
}

// batch makes the next batch. The queue must not be empty.
func (q *Queue[T]) batch(take bool) Batch[T] {
	entries := q.entries.all()
	n := q.run(entries)
	b := Batch[T]{Items: make([]T, n), Mode: entries[0].Mode, Isolated: entries[0].Isolated}
	for i := range b.Items {
		b.Items[i] = entries[i].Item
	}
	if take {
		q.entries.drop(n)
	}
	return b
}

// run returns the number of entries in the next batch.
func (q *Queue[T]) run(entries []queued[T]) int {
	first := &entries[0]
	if first.Isolated {
		return 1
	}
	n, room := 1, q.opts.MaxBytes-first.size
	for n < len(entries) && n != q.opts.MaxBatch {
		e := &entries[n]
		if e.Isolated || e.Mode != first.Mode || q.opts.MaxBytes > 0 && e.size > room {
			break
		}
		room -= e.size
		n++
	}
	return n
}

func (q *Queue[T]) clear() []Entry[T] {
	var cleared []Entry[T]
	for _, e := range q.entries.all() {
		cleared = append(cleared, e.Entry)
	}
	q.entries.drop(q.entries.len())
	return cleared
}

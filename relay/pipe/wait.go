package pipe

import (
	"context"
	"fmt"
	"slices"
)

// waiter is a waiting Next. It is woken and then takes by itself, so that no value is ever held by a waiter whose
// context has ended.
type waiter struct {
	wake chan struct{} // holds one signal: check the queue
	err  error         // guarded by the queue's mu; if set, the waiter is off the list
}

func (w *waiter) signal() { Poke(w.wake) }

// wake signals the first waiter if there is anything for it.
func (q *Queue[T]) wake() {
	if len(q.waiters) > 0 && (q.entries.len() > 0 || q.closed) {
		q.waiters[0].signal()
	}
}

// leave removes a waiter from the list and wakes the next one.
func (q *Queue[T]) leave(w *waiter) {
	if i := slices.Index(q.waiters, w); i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
	}
	q.wake()
}

func (q *Queue[T]) next(ctx context.Context, take bool) (Batch[T], error) {
	q.mu.Lock()
	w := &waiter{wake: make(chan struct{}, 1)}
	q.waiters = append(q.waiters, w)
	q.mu.Unlock()

	for {
		if b, done, err := q.attempt(ctx, w, take); done {
			return b, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
		}
	}
}

// attempt takes a batch for a waiter. If done is false, the waiter must wait.
func (q *Queue[T]) attempt(ctx context.Context, w *waiter, take bool) (b Batch[T], done bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := len(q.waiters) > 0 && q.waiters[0] == w
	switch waiting := q.entries.len() > 0; {
	case w.err != nil:
		return b, true, w.err
	case first && waiting:
		b = q.batch(take)
		q.leave(w)
		return b, true, nil
	case first && q.closed:
		q.leave(w)
		return b, true, fmt.Errorf("pipe: next: %w", ErrClosed)
	case ctx.Err() != nil:
		q.leave(w)
		return b, true, fmt.Errorf("pipe: next: %w", ctx.Err())
	}
	return b, false, nil
}

// Poke puts a signal into a channel that has room for one, unless a signal is there already. The reader of a signal
// must check everything that has come by then.
func Poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

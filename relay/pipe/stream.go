package pipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
)

// Stream passes values from many producers to one consumer, in order. The zero value is a stream without a limit.
type Stream[T any] struct {
	limit int

	mu      sync.Mutex
	values  fifo[T]
	senders []*sender[T]  // waiting for room, in the order of arrival; none while there is room
	arrived chan struct{} // closed to wake the consumer; nil while it does not wait
	busy    bool          // a consumer is active
	end     error         // nil: open; io.EOF: ended; else the failure
}

// sender is a Send that waits for room.
type sender[T any] struct {
	value T
	done  chan struct{} // closed when the value was taken, or the stream has ended
	err   error         // guarded by the stream's mu: why the value was not taken
}

// NewStream returns a stream that holds up to limit values. If limit is less than 1, it holds as many as memory does.
func NewStream[T any](limit int) *Stream[T] { return &Stream[T]{limit: max(0, limit)} }

// Push adds a value at the end, or refuses it with [ErrFull] or [ErrEnded]. If the stream failed, the error wraps the
// failure, too.
func (s *Stream[T]) Push(value T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return s.ended("push")
	}
	if s.full() {
		return fmt.Errorf("pipe: push: stream holds %d values, its limit: %w", s.limit, ErrFull)
	}
	s.add(value)
	return nil
}

// Send is [Stream.Push], but waits for room, or for the end of ctx.
func (s *Stream[T]) Send(ctx context.Context, value T) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("pipe: send: %w", err)
	}
	s.mu.Lock()
	if s.end != nil {
		defer s.mu.Unlock()
		return s.ended("send")
	}
	if !s.full() {
		defer s.mu.Unlock()
		s.add(value)
		return nil
	}
	w := &sender[T]{value: value, done: make(chan struct{})}
	s.senders = append(s.senders, w)
	s.mu.Unlock()

	select {
	case <-w.done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.senders, w); i >= 0 {
		s.senders = slices.Delete(s.senders, i, i+1)
		return fmt.Errorf("pipe: send: %w", ctx.Err())
	}
	return w.err
}

// End makes later pushes fail, and each waiting [Stream.Send], with [ErrEnded]. Earlier values are still read.
func (s *Stream[T]) End() { s.finish(io.EOF) }

// Fail is [Stream.End] with an error: after the last value, each read returns it. The first call of End or Fail
// counts. Fail(nil) is End.
func (s *Stream[T]) Fail(err error) {
	if err == nil {
		err = io.EOF
	}
	s.finish(err)
}

func (s *Stream[T]) finish(end error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return
	}
	s.end = end
	for _, w := range s.senders {
		w.err = s.ended("send")
		close(w.done)
	}
	s.senders = nil
	s.wake()
}

// Next returns the next value, and waits for one if there is none. Without a value it returns [io.EOF] if the stream
// has ended, the error of Fail, the error of the context, or [ErrBusy] while another consumer is in Next or in a loop
// over [Stream.All].
func (s *Stream[T]) Next(ctx context.Context) (T, error) {
	if err := s.claim(); err != nil {
		var zero T
		return zero, err
	}
	defer s.release()
	return s.next(ctx)
}

// All returns the values for a loop. If the stream has ended, the loop ends after the last value; otherwise it ends
// with a zero value and the error of [Stream.Next]. After a loop that was left early, another one continues where it
// stopped.
func (s *Stream[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := s.claim(); err != nil {
			var zero T
			yield(zero, err)
			return
		}
		// Also if the body of the loop panics.
		defer s.release()
		for {
			value, err := s.next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// Len returns the number of unread values.
func (s *Stream[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values.len()
}

func (s *Stream[T]) next(ctx context.Context) (value T, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return value, fmt.Errorf("pipe: next: %w", err)
		}
		arrived, value, err := s.take()
		if arrived == nil {
			return value, err
		}
		select {
		case <-arrived:
		case <-ctx.Done():
		}
	}
}

// take returns a value, or the final error, or a channel to wait on.
func (s *Stream[T]) take() (arrived <-chan struct{}, value T, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values.len() == 0 {
		if s.end != nil {
			return nil, value, s.end
		}
		if s.arrived == nil {
			s.arrived = make(chan struct{})
		}
		return s.arrived, value, nil
	}
	value = s.values.all()[0]
	s.values.drop(1)
	if len(s.senders) > 0 {
		// The sender that has waited longest gets the room.
		w := s.senders[0]
		s.senders = slices.Delete(s.senders, 0, 1)
		s.values.push(w.value)
		close(w.done)
	}
	return nil, value, nil
}

func (s *Stream[T]) full() bool { return s.limit > 0 && s.values.len() >= s.limit }

func (s *Stream[T]) add(value T) {
	s.values.push(value)
	s.wake()
}

func (s *Stream[T]) wake() {
	if s.arrived != nil {
		close(s.arrived)
		s.arrived = nil
	}
}

func (s *Stream[T]) claim() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return fmt.Errorf("pipe: next: %w", ErrBusy)
	}
	s.busy = true
	return nil
}

func (s *Stream[T]) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
}

func (s *Stream[T]) ended(what string) error {
	if s.end == io.EOF {
		return fmt.Errorf("pipe: %s: %w", what, ErrEnded)
	}
	return fmt.Errorf("pipe: %s: %w by failing: %w", what, ErrEnded, s.end)
}

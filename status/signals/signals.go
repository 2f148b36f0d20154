// Package signals tells those who wait that something is new: a signal says no more than that, and several are one.
package signals

import (
	"context"
	"sync"
	"time"
)

// Send wakes the reader of c, which has room for one signal.
func Send(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a signal already
	}
}

// Loop calls do at each signal of news or wake, and every so often, until ctx ends.
func Loop(ctx context.Context, news, wake <-chan struct{}, every time.Duration, do func()) error {
	return LoopWhile(ctx, news, wake, every, func() bool { return true }, do)
}

// LoopWhile is [Loop], but between signals do is called only while busy is true: it is asked
// before each wait. A service that has nothing to do should not wake up for that.
func LoopWhile(ctx context.Context, news, wake <-chan struct{}, every time.Duration, busy func() bool, do func()) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		tick := ticker.C
		if !busy() {
			tick = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		case <-wake:
		case <-tick:
		}
		do()
	}
}

// Subscribers receive a signal whenever something is new.
type Subscribers struct {
	mu   sync.Mutex
	subs map[chan struct{}]bool
}

// Subscribe returns a channel for the signals from now on. Call done at the end.
func (s *Subscribers) Subscribe() (news <-chan struct{}, done func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subs == nil {
		s.subs = map[chan struct{}]bool{}
	}
	s.subs[c] = true
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subs, c)
	}
}

// Tell signals all of them.
func (s *Subscribers) Tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.subs {
		Send(c)
	}
}

// Size returns the number of subscribers.
func (s *Subscribers) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subs)
}

package bridge

import (
	"context"
	"sync"
	"time"
)

// signal wakes the reader of c, which has room for one signal.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a signal already
	}
}

// loop calls do at each signal of news or wake, and every so often, until ctx ends.
func loop(ctx context.Context, news, wake <-chan struct{}, every time.Duration, do func()) error {
	return loopWhile(ctx, news, wake, every, func() bool { return true }, do)
}

// loopWhile is loop, but between signals do is called only while busy is true: it is asked
// before each wait. A service that has nothing to do should not wake up for that.
func loopWhile(ctx context.Context, news, wake <-chan struct{}, every time.Duration, busy func() bool, do func()) error {
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

// subscribers receive a signal whenever something is new.
type subscribers struct {
	mu   sync.Mutex
	subs map[chan struct{}]bool
}

// subscribe returns a channel for the signals from now on. Call done at the end.
func (s *subscribers) subscribe() (news <-chan struct{}, done func()) {
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

func (s *subscribers) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.subs {
		signal(c)
	}
}

// size returns the number of subscribers.
func (s *subscribers) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subs)
}

package pane

import (
	"testing"
	"testing/synctest"
	"time"

	"teambridge/relay/peer"
)

// A clock that is set back delays a message by no more than the limit itself.
func TestLimitAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{}).Sessions
		sent := func() (list []time.Time) { // as SentSince reads them again
			for range peer.Burst {
				list = append(list, time.Date(2000, 1, 1, 5, 0, 0, 0, time.UTC))
			}
			return list
		}
		if n := s.tokens(sent()); n >= 1 {
			t.Errorf("%v messages may follow a burst at once", n)
		}
		time.Sleep(s.timing.refill + time.Second/10)
		if n := s.tokens(sent()); n < 1 || n >= 2 {
			t.Errorf("after a refill, %v may", n)
		}
		time.Sleep(peer.Burst * s.timing.refill)
		if n := s.tokens(append(sent(), time.Now())); n < peer.Burst-1.1 || n > peer.Burst-0.9 {
			t.Errorf("much later, and after another one, %v may", n)
		}
	})
}

package relay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simchild"
	"teambridge/teams/lockedfile"
)

// otherProcess opens the ledger a second time, as another process does.
func (s *station) otherProcess() *ledger.Ledger {
	s.t.Helper()
	l, err := ledger.Open(s.t.Context(), filepath.Join(s.dir, "state", "ledger.db"))
	must(s.t, err)
	s.t.Cleanup(func() { l.Close() })
	return l
}

// saying returns the delivery of the text.
func (s *station) saying(l *ledger.Ledger, text string) ledger.Delivery {
	s.t.Helper()
	all, err := l.Deliveries.List(context.Background(), ledger.DeliveryQuery{Team: "demo"})
	if err != nil {
		s.t.Error(err)
	}
	for _, d := range all {
		if strings.Contains(string(d.Raw), text) {
			return d
		}
	}
	s.t.Errorf("no delivery of %s", text)
	return ledger.Delivery{}
}

// relayWith runs a relay in which something happens at the first such moment.
func (s *station) relayWith(when moment, what func()) (stop func()) {
	s.t.Helper()
	r := s.newRelay(s.options())
	var once sync.Once
	r.at = func(now moment) {
		if now == when {
			once.Do(what)
		}
	}
	return s.run(r)
}

// A message that another process drops between two steps of the relay is not sent, all
// others are sent once, and the relay goes on.
func TestDroppedBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	drop := func(s *station, l *ledger.Ledger) {
		if err := l.Deliveries.Drop(context.Background(), s.saying(l, "[m-2]").UUID); err != nil {
			s.t.Error(err)
		}
	}
	for name, tc := range map[string]struct {
		when moment
		rows []string
		what func(*station, *ledger.Ledger)
		gone bool // from the ledger, too
	}{
		"before its row is marked":       {when: claimed, rows: []string{"[m-1]", "[m-2]", "[m-3]"}, what: drop},
		"before the frame":               {when: queued, rows: []string{"[m-1]", "[m-2]", "[m-3]"}, what: drop},
		"the only one, before the frame": {when: queued, rows: []string{"[m-2]"}, what: drop},
		"and forgotten": {when: queued, rows: []string{"[m-1]", "[m-2]", "[m-3]"}, gone: true, what: func(s *station, l *ledger.Ledger) {
			drop(s, l)
			if _, err := l.Prune(context.Background(), time.Now().Add(time.Hour)); err != nil {
				s.t.Error(err)
			}
		}},
		"and forgotten, before its row is marked": {when: claimed, rows: []string{"[m-1]", "[m-2]", "[m-3]"}, gone: true, what: func(s *station, l *ledger.Ledger) {
			drop(s, l)
			if _, err := l.Prune(context.Background(), time.Now().Add(time.Hour)); err != nil {
				s.t.Error(err)
			}
		}},
		"one that is too long": {when: queued, rows: []string{"[m-2]" + strings.Repeat("\x01", 30<<10), "[m-3]"}, what: drop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			other := s.otherProcess()
			s.agent().write(tc.rows...)
			stop := s.relayWith(tc.when, func() { tc.what(s, other) })
			n := len(tc.rows)
			if tc.gone {
				n--
			}
			s.settled(n)
			s.agent().write("[m-4]")
			for _, d := range s.settled(n + 1) {
				want := ledger.Done
				if strings.Contains(string(d.Raw), "[m-2]") {
					want = ledger.Dropped
				}
				if d.State != want {
					t.Errorf("%.200s is %s (%s), want %s", d.Raw, d.State, d.Reason, want)
				}
			}
			stop()
			count := s.works("[m-1]", "[m-2]", "[m-3]", "[m-4]")
			for _, row := range append(tc.rows, "[m-4]") {
				want := 1
				if strings.HasPrefix(row, "[m-2]") {
					want = 0
				}
				if got := count[row[:5]]; got != want {
					t.Errorf("%s was worked on %d times, want %d", row[:5], got, want)
				}
			}
			if starts := s.logged("start"); starts != 1 {
				t.Errorf("%d agents were started, want one", starts)
			}
			for _, err := range s.warned {
				// The row names the delivery that took it, which no longer exists.
				if !tc.gone || !is[*UnknownDeliveryError](err) {
					t.Errorf("it warned: %v", err)
				}
			}
		})
	}
}

// A message in a frame can no longer be dropped or put back, whether the frame was
// written or not: it is sent once.
func TestDroppedInAFrame(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	other := s.otherProcess()
	s.agent().write("[m-1]", "[m-2]")
	stop := s.relayWith(committed, func() {
		id := s.saying(other, "[m-2]").UUID
		for name, move := range map[string]func(context.Context, string) error{"drop": other.Deliveries.Drop, "retry": other.Deliveries.Retry} {
			if err := move(context.Background(), id); !is[*ledger.StateError](err) {
				t.Errorf("%s: got %v, want a StateError", name, err)
			}
		}
	})
	s.done(2)
	stop()
	if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 1 {
		t.Errorf("worked on %v", n)
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// A failed message that is put back while a frame is made is sent in the next frame, and
// the relay goes on.
func TestRetriedBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	for _, when := range []moment{claimed, queued, committed} {
		t.Run(string(when), func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			other := s.otherProcess()
			r := s.newRelay(s.options())
			said, err := Prompt(t.Context(), other, r.Key(), Input{Text: "[m-1]"})
			if err == nil {
				err = other.Deliveries.End(t.Context(), ledger.Failed, "for the test", said.Delivery)
			}
			must(t, err)
			s.agent().write("[m-2]")
			stop := s.relayWith(when, func() {
				if err := other.Deliveries.Retry(context.Background(), said.Delivery); err != nil {
					t.Error(err)
				}
			})
			s.await("both are done", func() bool {
				return s.saying(other, "[m-1]").State == ledger.Done && s.saying(other, "[m-2]").State == ledger.Done
			})
			stop()
		})
	}
}

// What another process puts back is found after a signal, without a poll in between. A signal while a frame is in flight
// is not forgotten.
func TestPutBackAndPoked(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	poked := make(chan struct{})
	opts := s.options()
	opts.Poked = poked
	r, stop := s.relay(opts)
	s.until("idle", func(st Status) bool { return st.State == Idle })
	other := s.otherProcess()
	for _, text := range []string{"[m-1]", "[m-2]", "[m-3]"} {
		said, err := Prompt(t.Context(), other, r.Key(), Input{Text: text})
		if err == nil {
			err = other.Deliveries.End(t.Context(), ledger.Failed, "for the test", said.Delivery)
		}
		if err == nil {
			err = other.Deliveries.Retry(t.Context(), said.Delivery)
		}
		must(t, err)
		poked <- struct{}{}
		poked <- struct{}{} // accepted only after the relay has handled the first one
		s.await("it is done", func() bool { return s.saying(other, text).State == ledger.Done })
	}
	stop()
}

// A row that was claimed, could not be marked, and is dropped before the relay retries is
// not claimed as another message.
func TestDroppedBeforeItsRowIsMarked(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	other := s.otherProcess()
	sender := s.agent()
	sender.write("[m-1]", "[m-2]")
	var once sync.Once
	s.locker = s.locking(lockedfile.Options{Before: func(step lockedfile.Step) {
		if step == lockedfile.StepFence {
			once.Do(func() {
				// The lock is lost: nothing is written.
				err := errors.Join(os.Remove(sender.path+".lock"), other.Deliveries.Drop(context.Background(), s.saying(other, "[m-2]").UUID))
				if err != nil {
					t.Error(err)
				}
			})
		}
	}})
	_, stop := s.relay(s.options())
	all := s.settled(2)
	if len(all) != 2 || all[0].State != ledger.Done || all[1].State != ledger.Dropped || !all[1].Marked {
		t.Errorf("got %+v, want the first done, and the second dropped", all)
	}
	stop()
	data, err := os.ReadFile(sender.path)
	if err != nil || !strings.Contains(string(data), all[1].UUID) || strings.Contains(string(data), `"read": false`) {
		t.Errorf("the inbox is %s, %v; want both rows taken, by their deliveries", data, err)
	}
	if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 0 {
		t.Errorf("worked on %v", n)
	}
}

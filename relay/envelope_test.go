package relay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/wire"
)

// shelf is an archive in memory that can fail.
type shelf struct {
	mu   sync.Mutex
	list []journal.Envelope
	fail func(journal.Envelope) error // nil: never
}

func (s *shelf) Record(_ context.Context, list ...journal.Envelope) (recorded []bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range list {
		if s.fail != nil {
			if err := s.fail(e); err != nil {
				return nil, err
			}
		}
		isNew := !slices.ContainsFunc(s.list, func(o journal.Envelope) bool { return o.ID == e.ID })
		if recorded = append(recorded, isNew); isNew {
			s.list = append(s.list, e)
		}
	}
	return recorded, nil
}

func (s *shelf) Last(context.Context, inbox.InboxKey, string) (last time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.list {
		if e.At.After(last) {
			last = e.At
		}
	}
	return last, nil
}

func (s *shelf) ids() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.list {
		ids = append(ids, e.ID)
	}
	return ids
}

// memory is a runtime with nothing but a conversation.
type memory struct {
	agent.Runtime
	list []wire.Envelope
	slow time.Duration // how long a read takes

	mu    sync.Mutex
	ended []bool // of each reading
}

func (m *memory) Conversation(ctx context.Context, session string, since time.Time, ended bool) iter.Seq2[wire.Envelope, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = append(m.ended, ended)
	return func(yield func(wire.Envelope, error) bool) {
		if session != "s" {
			yield(wire.Envelope{}, fmt.Errorf("no conversation %q", session))
			return
		}
		select {
		case <-time.After(m.slow):
		case <-ctx.Done():
			yield(wire.Envelope{}, context.Cause(ctx))
			return
		}
		for _, e := range m.list {
			if !timeOf(e).Before(since) && !yield(e, nil) {
				return
			}
		}
	}
}

// recording starts the recorder of a relay, without the rest of the relay.
func recording(t *testing.T, s *shelf, m *memory) *recorder {
	t.Helper()
	r := &Relay{opts: Options{Member: "lead", Runtime: m, Warn: func(error) {}}, archive: s, post: inbox.InboxKey{Root: "/r", Team: "demo", Inbox: "lead"}}
	c, err := newRecorder(r)
	must(t, err)
	return c
}

// said returns n texts, a second apart, from the current time on.
func said(n int) (list []wire.Envelope) {
	now := time.Now()
	for i := range n {
		list = append(list, wire.Envelope{
			ID: fmt.Sprintf("e%04d", i), Time: float64(now.Add(time.Duration(i) * time.Second).UnixMilli()), Role: wire.RoleAgent,
			Event: &wire.Text{Text: fmt.Sprint(i)},
		})
	}
	return list
}

func idsOf(list []wire.Envelope) (ids []string) {
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}

// If the journal fails for a while, envelopes are late, but none is lost or repeated.
func TestRecorderOutlastsFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		failed := 0
		s := &shelf{fail: func(journal.Envelope) error {
			if failed < 9 && rnd.IntN(3) > 0 { // one that fails 10 times is given up
				failed++
				return errors.New("locked")
			}
			failed = 0
			return nil
		}}
		list := said(200)
		c := recording(t, s, &memory{list: list})
		c.add("s", list)
		for len(s.ids()) < len(list) {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		c.end()
		if got := s.ids(); !slices.Equal(got, idsOf(list)) {
			t.Errorf("got %v", got)
		}
	})
}

// Once a journal that failed for long works again, it gets the missing envelopes from
// the conversation, including those that did not fit into the outbox.
func TestRecorderReadsWhatIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := true
		s := &shelf{fail: func(journal.Envelope) error {
			if broken {
				return errors.New("disk full")
			}
			return nil
		}}
		list := said(3 * maxEnvelopes)
		m := &memory{list: list}
		c := recording(t, s, m)
		c.add("s", list[:len(list)-1])
		time.Sleep(time.Minute) // some are given up
		s.mu.Lock()
		broken = false
		s.mu.Unlock()
		for len(s.ids()) < len(list) {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		c.add("s", list[len(list)-1:])
		c.end()
		got := s.ids()
		slices.Sort(got)
		if !slices.Equal(got, idsOf(list)) {
			t.Errorf("%d of %d envelopes", len(got), len(list))
		}
	})
}

// The work of an agent while no relay ran is recorded before anything else, and nothing is
// recorded again.
func TestRecorderResumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := said(20)
		s, m := &shelf{}, &memory{list: list[:15]}
		began := time.Now()
		time.Sleep(time.Hour)
		c := recording(t, s, m)
		c.resume(t.Context(), ledger.Session{ID: "s", At: began})
		c.end()
		if got := s.ids(); !slices.Equal(got, idsOf(list[:15])) {
			t.Errorf("after the first: %v", got)
		}
		m.list = list
		var told []string
		c = recording(t, s, m)
		c.relay.opts.Envelope = func(e wire.Envelope) { told = append(told, e.ID) }
		c.resume(t.Context(), ledger.Session{ID: "s", At: time.Now()})
		c.add("s", list[18:])
		c.end()
		if got := s.ids(); !slices.Equal(got, idsOf(list)) {
			t.Errorf("after the second: %v", got)
		}
		if !slices.Equal(told, idsOf(list[15:])) {
			t.Errorf("told of %v", told)
		}
		c = recording(t, s, m)
		c.resume(t.Context(), ledger.Session{}) // there was none before
		c.end()
	})
}

// A journal that cannot be used delays the start of an agent only briefly. The missing
// envelopes are recorded once it works.
func TestRecorderDoesNotHoldTheAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		s := &shelf{fail: func(journal.Envelope) error {
			if broken.Load() {
				return errors.New("disk full")
			}
			return nil
		}}
		list := said(20)
		c := recording(t, s, &memory{list: list})
		began := time.Now()
		c.add("s", list[:5])
		c.resume(t.Context(), ledger.Session{ID: "s", At: began})
		if took := time.Since(began); took > journalWait {
			t.Errorf("it took %v", took)
		}
		broken.Store(false)
		for len(s.ids()) < len(list) {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		c.end()
		if got := s.ids(); len(got) != len(list) {
			t.Errorf("got %v", got)
		}
	})
}

// However much an agent did while no relay ran, and however long it takes to read that, it is
// recorded before the agent's present work.
func TestRecorderResumesInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := said(3 * maxEnvelopes)
		s, m := &shelf{}, &memory{list: list[:len(list)-10], slow: conversationWait / 2}
		c := recording(t, s, m)
		began := time.Now()
		c.add("s", list[:5])
		c.resume(t.Context(), ledger.Session{ID: "s", At: began})
		c.add("s", list[len(list)-20:])
		if !slices.Equal(m.ended, []bool{true}) {
			t.Errorf("the conversation of an agent that has ended was read with %v", m.ended)
		}
		c.end()
		if got := s.ids(); !slices.Equal(got, idsOf(list)) {
			t.Errorf("%d of %d envelopes, or in another order", len(got), len(list))
		}
	})
}

// Tool calls that end in any order, early and late, are recorded in the order in which
// the agent reported them.
func TestRecorderKeepsTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var list []wire.Envelope
		var calls []string
		rnd := rand.New(rand.NewPCG(3, 4))
		end := func() {
			i := rnd.IntN(len(calls))
			list = append(list, wire.Envelope{ID: "end-" + calls[i], Role: wire.RoleAgent, Event: &wire.ToolCallEnd{Call: calls[i]}})
			calls = slices.Delete(calls, i, i+1)
		}
		for i := range 1000 {
			call := fmt.Sprint(i)
			calls = append(calls, call)
			list = append(list, wire.Envelope{ID: "start-" + call, Role: wire.RoleAgent, Event: &wire.ToolCallStart{Call: call, Name: "Bash", Title: "x", Args: wire.Object{}}})
			for len(calls) > rnd.IntN(20) {
				end()
			}
		}
		for len(calls) > 0 {
			end()
		}
		want := idsOf(list)
		s := &shelf{}
		c := recording(t, s, &memory{})
		for len(list) > 0 {
			n := min(len(list), rnd.IntN(40))
			c.add("s", list[:n])
			time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
			list = list[n:]
		}
		c.end()
		if got := s.ids(); !slices.Equal(got, want) {
			t.Errorf("%d envelopes in another order, want %d", len(got), len(want))
		}
	})
}

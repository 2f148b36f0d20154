package pipe

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sink records what an outbox sends and skips, and when.
type sink struct {
	start time.Time
	fail  func(item string, try int) error // nil: all succeed; try counts from 1 for all items

	mu  sync.Mutex
	log sinkLog
}

type sinkLog struct {
	sent    []string
	at      []time.Duration // since start, of each in sent
	skipped []string
	tries   int
}

func (s *sink) send(_ context.Context, item string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.tries++
	if s.fail != nil {
		if err := s.fail(item, s.log.tries); err != nil {
			return err
		}
	}
	s.log.sent = append(s.log.sent, item)
	s.log.at = append(s.log.at, time.Since(s.start))
	return nil
}

func (s *sink) skip(item string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.skipped = append(s.log.skipped, item+": "+err.Error())
}

// look returns the records so far.
func (s *sink) look() sinkLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}

// outbox returns an outbox that runs in the bubble, and its sink.
func outbox(t *testing.T, o OutboxOptions[string]) (*Outbox[string], *sink) {
	t.Helper()
	s := &sink{start: time.Now()}
	o.Send, o.Skipped = s.send, s.skip
	box, err := NewOutbox(o)
	must(t, err)
	done := make(chan error, 1)
	ctx := context.WithoutCancel(t.Context())
	go func() { done <- box.Run(ctx) }()
	t.Cleanup(func() {
		box.Close()
		must(t, <-done)
	})
	return box, s
}

// sleep lets time pass, and due events happen.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]func(*testing.T){
		"in order, at once": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{})
			for _, item := range []string{"a", "b", "c"} {
				must(t, box.Push(item))
			}
			synctest.Wait()
			same(t, "sent", s.look().sent, []string{"a", "b", "c"})
			same(t, "at", s.look().at, []time.Duration{0, 0, 0})
			same(t, "left", box.Len(), 0)
		},
		"a held item blocks those behind it": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{})
			must(t, box.Push("a"))
			must(t, box.Hold("b", "call"))
			must(t, box.Push("c"))
			sleep(249 * ms)
			same(t, "sent while b is held", s.look().sent, []string{"a"})
			same(t, "left while b is held", box.Len(), 2)
			sleep(ms)
			same(t, "sent", s.look().sent, []string{"a", "b", "c"})
			same(t, "at", s.look().at, []time.Duration{0, 250 * ms, 250 * ms})
		},
		"held since it was put in": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{HoldFor: 100 * ms})
			must(t, box.Hold("a", "1"))
			sleep(60 * ms)
			must(t, box.Hold("b", "2"))
			sleep(time.Second)
			same(t, "at", s.look().at, []time.Duration{100 * ms, 160 * ms})
		},
		"released": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{})
			must(t, box.Hold("a", "call"))
			must(t, box.Push("b"))
			box.Release("another")
			sleep(10 * ms)
			same(t, "sent before", len(s.look().sent), 0)
			box.Release("call")
			synctest.Wait()
			same(t, "sent", s.look().sent, []string{"a", "b"})
			same(t, "at", s.look().at, []time.Duration{10 * ms, 10 * ms})
		},
		"released behind another": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{})
			must(t, box.Hold("a", "1"))
			must(t, box.Hold("b", "2"))
			box.Release("2")
			synctest.Wait()
			same(t, "sent before", len(s.look().sent), 0)
			box.Release("1")
			synctest.Wait()
			same(t, "sent", s.look().sent, []string{"a", "b"})
		},
		"released before it came": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{})
			box.Release("call")
			sleep(time.Hour)
			must(t, box.Hold("a", "call"))
			must(t, box.Hold("b", "call"))
			synctest.Wait()
			same(t, "sent", s.look().sent, []string{"a", "b"})
		},
		"flush": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{})
			must(t, box.Hold("a", "1"))
			must(t, box.Hold("b", "2"))
			synctest.Wait()
			box.Flush()
			synctest.Wait()
			same(t, "sent", s.look().sent, []string{"a", "b"})
			must(t, box.Hold("c", "3"))
			synctest.Wait()
			same(t, "sent", s.look().sent, []string{"a", "b"})
			sleep(time.Second)
			same(t, "sent", s.look().sent, []string{"a", "b", "c"})
		},
		"close": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{})
			must(t, box.Hold("a", "1"))
			must(t, box.Hold("b", "2"))
			box.Close()
			box.Close()
			if err := box.Push("c"); !errors.Is(err, ErrClosed) {
				t.Errorf("push: got %v, want ErrClosed", err)
			}
			if err := box.Hold("c", "3"); !errors.Is(err, ErrClosed) {
				t.Errorf("hold: got %v, want ErrClosed", err)
			}
			synctest.Wait()
			same(t, "sent", s.look().sent, []string{"a", "b"})
			same(t, "at", s.look().at, []time.Duration{0, 0})
			must(t, box.Run(t.Context()))
		},
		"a send that fails is tried again": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{})
			s.fail = func(item string, try int) error {
				if try == 2 || try == 3 {
					return errBroken
				}
				return nil
			}
			for _, item := range []string{"a", "b", "c"} {
				must(t, box.Push(item))
			}
			sleep(time.Second)
			same(t, "sent", s.look().sent, []string{"a", "b", "c"})
			same(t, "at", s.look().at, []time.Duration{0, 150 * ms, 150 * ms})
			same(t, "skipped", len(s.look().skipped), 0)
		},
		"one that always fails is skipped": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{Tries: 3})
			s.fail = func(item string, try int) error {
				if item == "b" {
					return errBroken
				}
				return nil
			}
			for _, item := range []string{"a", "b", "c"} {
				must(t, box.Push(item))
			}
			sleep(time.Second)
			same(t, "sent", s.look().sent, []string{"a", "c"})
			same(t, "skipped", s.look().skipped, []string{"b: " + errBroken.Error()})
			same(t, "tries", s.look().tries, 5)
			same(t, "left", box.Len(), 0)
		},
		"a sink that fails for a while": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{})
			s.fail = func(string, int) error {
				if time.Since(s.start) < 15*time.Second {
					return errBroken
				}
				return nil
			}
			var want []string
			for i := range 100 {
				want = append(want, strconv.Itoa(i))
				must(t, box.Push(want[i]))
				sleep(100 * ms)
			}
			sleep(time.Minute)
			same(t, "sent", s.look().sent, want)
			same(t, "skipped", len(s.look().skipped), 0)
			same(t, "tries", s.look().tries, 100+9)
		},
		"a sink that fails for ever": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{Tries: 2})
			s.fail = func(string, int) error { return errBroken }
			must(t, box.Push("a"))
			must(t, box.Hold("b", "call"))
			box.Close()
			sleep(time.Second)
			same(t, "skipped", len(s.look().skipped), 2)
		},
		"the longest waits": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{})
			var at []time.Duration
			s.fail = func(string, int) error {
				at = append(at, time.Since(s.start))
				return errBroken
			}
			must(t, box.Push("a"))
			sleep(time.Minute)
			same(t, "tries", at, []time.Duration{0, 50 * ms, 150 * ms, 350 * ms, 750 * ms, 1550 * ms, 3150 * ms, 6350 * ms, 11350 * ms, 16350 * ms})
		},
		"full": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{MaxItems: 2})
			must(t, box.Hold("a", "call"))
			must(t, box.Push("b"))
			if err := box.Push("c"); !errors.Is(err, ErrFull) {
				t.Errorf("got %v, want ErrFull", err)
			}
			box.Flush()
			synctest.Wait()
			must(t, box.Push("d"))
			synctest.Wait()
			same(t, "sent", s.look().sent, []string{"a", "b", "d"})
		},
		"one Run at a time": func(t *testing.T) {
			box, _ := outbox(t, OutboxOptions[string]{})
			synctest.Wait()
			if err := box.Run(t.Context()); !errors.Is(err, ErrBusy) {
				t.Errorf("got %v, want ErrBusy", err)
			}
		},
		"forgotten ids": func(t *testing.T) {
			box, s := outbox(t, OutboxOptions[string]{})
			for i := range maxReleased + 1 {
				box.Release(strconv.Itoa(i))
			}
			box.Release("2") // recorded already: no other is dropped for it
			must(t, box.Hold("b", "1"))
			must(t, box.Hold("a", "0"))
			sleep(time.Second)
			same(t, "sent", s.look().sent, []string{"b", "a"})
			same(t, "at", s.look().at, []time.Duration{0, 250 * ms})
			same(t, "remembered", []int{len(box.released), box.recent.len()}, []int{maxReleased, maxReleased})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, test)
		})
	}
}

// A done context stops Run wherever it waits, and the next Run goes on with the
// remaining items.
func TestOutboxIsCancelled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		put  func(*Outbox[string]) error
		fail error
		sent []string
	}{
		"for an item":  {func(o *Outbox[string]) error { return nil }, nil, nil},
		"for a hold":   {func(o *Outbox[string]) error { return o.Hold("a", "call") }, nil, []string{"a"}},
		"for the sink": {func(o *Outbox[string]) error { return o.Push("a") }, errBroken, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &sink{start: time.Now(), fail: func(string, int) error { return test.fail }}
				box, err := NewOutbox(OutboxOptions[string]{Send: s.send, Skipped: s.skip})
				must(t, err)
				must(t, test.put(box))
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				if err := box.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the error of the context", err)
				}
				same(t, "stopped after", time.Since(s.start), 20*time.Millisecond)
				s.fail = nil
				box.Close()
				must(t, box.Run(t.Context()))
				same(t, "sent", s.look().sent, test.sent)
				same(t, "skipped", len(s.look().skipped), 0)
			})
		})
	}
}

// A send that the context interrupts is neither skipped nor lost; one that
// succeeds is not repeated.
func TestOutboxCancelledInSend(t *testing.T) {
	t.Parallel()
	for _, sendErr := range []error{nil, context.Canceled} {
		var sent []string
		ctx, cancel := context.WithCancel(t.Context())
		box, err := NewOutbox(OutboxOptions[string]{
			Send: func(ctx context.Context, item string) error {
				if len(sent) == 0 {
					cancel()
				}
				sent = append(sent, item)
				return sendErr
			},
			Skipped: func(item string, err error) { t.Errorf("skipped %s: %v", item, err) },
			Tries:   1,
		})
		must(t, err)
		must(t, box.Push("a"))
		must(t, box.Push("b"))
		if err := box.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
		same(t, "sent", sent, []string{"a"})
		want := 1
		if sendErr != nil {
			want = 2
		}
		same(t, "left", box.Len(), want)
	}
}

// The order is kept whenever items are released: a thousand tool calls, each
// released before it comes, while it is held, too late, or never.
func TestOutboxOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 1000
		r := rand.New(rand.NewPCG(1, 2))
		box, s := outbox(t, OutboxOptions[string]{})
		s.fail = func(_ string, try int) error {
			if try%97 == 0 {
				return errBroken
			}
			return nil
		}
		ids := r.Perm(calls)
		go func() {
			for _, id := range ids {
				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
				if id%10 > 0 {
					box.Release(strconv.Itoa(id))
				}
			}
		}()
		var want []string
		for id := range calls {
			item := strconv.Itoa(id)
			must(t, box.Hold(item, item))
			must(t, box.Push("end of "+item))
			want = append(want, item, "end of "+item)
			time.Sleep(time.Duration(id%20) * time.Millisecond)
		}
		sleep(time.Hour)
		if !slices.Equal(s.look().sent, want) {
			t.Errorf("sent %d of %d items, or not in order: %.20q", len(s.look().sent), len(want), s.look().sent)
		}
		same(t, "skipped", len(s.look().skipped), 0)
	})
}

// 100,000 items take time in proportion to their number, also behind a hold.
func TestOutboxIsLinear(t *testing.T) {
	t.Parallel()
	const n = 100_000
	sent := 0
	box, err := NewOutbox(OutboxOptions[int]{
		Send:    func(context.Context, int) error { sent++; return nil },
		Skipped: func(int, error) {},
	})
	must(t, err)
	for i := range n {
		must(t, box.Hold(i, strconv.Itoa(i)))
		box.Release(strconv.Itoa(i))
	}
	box.Close()
	start := time.Now()
	must(t, box.Run(t.Context()))
	if took := time.Since(start); sent != n || took > time.Minute {
		t.Errorf("sent %d in %v", sent, took)
	}
}

func TestNewOutbox(t *testing.T) {
	t.Parallel()
	ok := func() OutboxOptions[int] {
		return OutboxOptions[int]{Send: func(context.Context, int) error { return nil }, Skipped: func(int, error) {}}
	}
	for name, change := range map[string]func(*OutboxOptions[int]){
		"no Send":           func(o *OutboxOptions[int]) { o.Send = nil },
		"no Skipped":        func(o *OutboxOptions[int]) { o.Skipped = nil },
		"negative Tries":    func(o *OutboxOptions[int]) { o.Tries = -1 },
		"negative HoldFor":  func(o *OutboxOptions[int]) { o.HoldFor = -1 },
		"negative MaxItems": func(o *OutboxOptions[int]) { o.MaxItems = -1 },
	} {
		o := ok()
		if _, err := NewOutbox(o); err != nil {
			t.Fatal(err)
		}
		change(&o)
		if _, err := NewOutbox(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

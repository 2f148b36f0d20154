package pipe

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"teambridge/relay/mode"
)

// model is the simplest queue with the same behaviour, without regard for speed.
type model struct {
	o       Options[int]
	entries []Entry[int]
	waiting []*modelWaiter
	closed  bool
}

type modelWaiter struct {
	peek   bool
	cancel context.CancelFunc
	real   chan answer[int] // what the queue answered
	want   answer[int]
	done   bool
}

func sizeOf(item int) int { return item % 7 }

// oneBatch reports whether entries may come out together.
func (m *model) oneBatch(entries []Entry[int]) bool {
	size := 0
	for _, e := range entries {
		size += sizeOf(e.Item)
		if len(entries) > 1 && (e.Isolated || e.Mode.Hash() != entries[0].Mode.Hash()) {
			return false
		}
	}
	return len(entries) == 1 ||
		(m.o.MaxBatch == 0 || len(entries) <= m.o.MaxBatch) && (m.o.MaxBytes == 0 || size <= m.o.MaxBytes)
}

func (m *model) next(peek bool) Batch[int] {
	n := 1
	for n < len(m.entries) && m.oneBatch(m.entries[:n+1]) {
		n++
	}
	b := Batch[int]{Mode: m.entries[0].Mode, Isolated: m.entries[0].Isolated}
	for _, e := range m.entries[:n] {
		b.Items = append(b.Items, e.Item)
	}
	if !peek {
		m.entries = m.entries[n:]
	}
	return b
}

// serve answers the waiting callers, in order, as far as there are answers.
func (m *model) serve() {
	for len(m.waiting) > 0 {
		w := m.waiting[0]
		switch {
		case len(m.entries) > 0:
			w.want.batch = m.next(w.peek)
		case m.closed:
			w.want.err = ErrClosed
		default:
			return
		}
		w.done = true
		m.waiting = m.waiting[1:]
	}
}

func (m *model) push(e Entry[int], only bool) (cleared []Entry[int], err error) {
	if m.closed {
		return nil, ErrClosed
	}
	if only {
		cleared, m.entries = m.entries, nil
	}
	if m.o.MaxItems > 0 && len(m.entries) == m.o.MaxItems {
		return nil, ErrFull
	}
	m.entries = append(m.entries, e)
	return cleared, nil
}

// quiet hides Deadline, which must not be called in a bubble.
type quiet struct{ testing.TB }

func TestQueueIsItsModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(quiet{t}, func(t *rapid.T) { checkModel(t) })
	})
}

func checkModel(t *rapid.T) {
	limit := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
	o := Options[int]{MaxItems: limit("MaxItems", 6), MaxBatch: limit("MaxBatch", 4), MaxBytes: limit("MaxBytes", 12), Size: sizeOf}
	q, err := NewQueue(o)
	must(t, err)
	m := &model{o: o}
	var waiters []*modelWaiter
	// Those that still wait at the end must not outlive the bubble.
	defer func() {
		for _, w := range waiters {
			w.cancel()
		}
		synctest.Wait()
	}()

	item := 0
	entry := func(isolated bool) Entry[int] {
		item++
		return Entry[int]{item, rapid.SampledFrom([]mode.Mode{modeA, modeB, {}}).Draw(t, "mode"), isolated}
	}
	check := func(what string, got, want any, gotErr, wantErr error) {
		if !errors.Is(gotErr, wantErr) || (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%s: got %v, want %v", what, gotErr, wantErr)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
	cleared := func(c []Entry[int]) []Entry[int] {
		if len(c) == 0 {
			return nil
		}
		return c
	}
	next := func(peek bool) {
		ctx, cancel := context.WithCancel(context.Background())
		w := &modelWaiter{peek: peek, cancel: cancel, real: make(chan answer[int], 1)}
		m.waiting = append(m.waiting, w)
		waiters = append(waiters, w)
		go func() {
			f := q.Next
			if peek {
				f = q.Peek
			}
			b, err := f(ctx)
			w.real <- answer[int]{b, err}
		}()
	}
	t.Repeat(map[string]func(*rapid.T){
		"push": func(t *rapid.T) {
			e := entry(false)
			_, want := m.push(e, false)
			check("push", nil, nil, q.Push(e.Item, e.Mode), want)
		},
		"push isolated": func(t *rapid.T) {
			e := entry(true)
			_, want := m.push(e, false)
			check("push isolated", nil, nil, q.PushIsolated(e.Item, e.Mode), want)
		},
		"isolate and clear": func(t *rapid.T) {
			e := entry(true)
			want, wantErr := m.push(e, true)
			got, gotErr := q.PushIsolateAndClear(e.Item, e.Mode)
			check("isolate and clear", got, cleared(want), gotErr, wantErr)
		},
		"next": func(t *rapid.T) { next(false) },
		"peek": func(t *rapid.T) { next(true) },
		"next without waiting": func(t *rapid.T) {
			if len(m.waiting) > 0 {
				t.Skip("somebody waits: there is nothing")
			}
			ctx := done()
			if len(m.entries) == 0 && !m.closed {
				_, err := q.Next(ctx)
				check("next", nil, nil, err, context.Canceled)
				return
			}
			next(false)
		},
		"cancel": func(t *rapid.T) {
			if len(m.waiting) == 0 {
				t.Skip("nobody waits")
			}
			i := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "waiter")
			w := m.waiting[i]
			w.done, w.want.err = true, context.Canceled
			m.waiting = append(m.waiting[:i:i], m.waiting[i+1:]...)
			w.cancel()
		},
		"reset": func(t *rapid.T) {
			check("reset", q.Reset(), cleared(m.entries), nil, nil)
			m.entries = nil
			for _, w := range m.waiting {
				w.done, w.want.err = true, ErrReset
			}
			m.waiting = nil
		},
		"close": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
				t.Skip("a closed queue is dull")
			}
			m.closed = true
			q.Close()
		},
		"": func(t *rapid.T) {
			m.serve()
			synctest.Wait()
			if got := q.Len(); got != len(m.entries) {
				t.Fatalf("the queue holds %d, want %d", got, len(m.entries))
			}
			for i, w := range waiters {
				if w == nil {
					continue
				}
				select {
				case a := <-w.real:
					if !w.done {
						t.Fatalf("waiter %d: got %v, %v; want it to wait", i, a.batch, a.err)
					}
					check("answer", a.batch, w.want.batch, a.err, w.want.err)
					w.done = false // answered: a second answer would be an error
					w.cancel()
				default:
					if w.done {
						t.Fatalf("waiter %d waits, want %v, %v", i, w.want.batch, w.want.err)
					}
				}
			}
		},
	})
}

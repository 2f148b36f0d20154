package pipe

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/relay/mode"
	"teambridge/teams/errtest"
)

// Two modes that differ.
var (
	modeA = mode.Mode{Model: mode.Set("a")}
	modeB = mode.Mode{Model: mode.Set("b")}
)

func newQueue[T any](t testing.TB, o Options[T]) *Queue[T] {
	t.Helper()
	q, err := NewQueue(o)
	must(t, err)
	return q
}

var must = errtest.Must

// done returns a done context: with it, Next takes only values that are there.
func done() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func batch(mode mode.Mode, items ...string) Batch[string] {
	return Batch[string]{Items: items, Mode: mode}
}

func isolated(mode mode.Mode, item string) Batch[string] {
	return Batch[string]{Items: []string{item}, Mode: mode, Isolated: true}
}

// drain takes all values out, without waiting.
func drain[T any](t testing.TB, q *Queue[T]) []Batch[T] {
	t.Helper()
	var got []Batch[T]
	for {
		b, err := q.Next(done())
		if errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
			return got
		}
		must(t, err)
		got = append(got, b)
	}
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// answer is the result of a Next in another goroutine.
type answer[T any] struct {
	batch Batch[T]
	err   error
}

// wait calls Next in another goroutine of the bubble. When wait returns, Next
// waits or has returned.
func wait[T any](ctx context.Context, q *Queue[T]) <-chan answer[T] {
	c := make(chan answer[T], 1)
	go func() {
		b, err := q.Next(ctx)
		c <- answer[T]{b, err}
	}()
	synctest.Wait()
	return c
}

// got returns the result of a waiting Next, which must have returned by now.
func got[T any](t testing.TB, c <-chan answer[T]) answer[T] {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-c:
		return a
	default:
		t.Fatal("Next still waits")
		panic("unreachable")
	}
}

func waits[T any](t testing.TB, c <-chan answer[T]) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-c:
		t.Fatalf("Next returned %v, %v; want it to wait", a.batch, a.err)
	default:
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	type push struct {
		mode mode.Mode
		item string
		how  string // "", "isolated", "clear"
	}
	size := func(s string) int { return len(s) }
	for _, c := range []struct {
		name    string
		options Options[string]
		pushes  []push
		want    []Batch[string]
	}{
		{"three of one mode, boundaries kept", Options[string]{},
			[]push{{modeA, "one\ntwo", ""}, {modeA, "", ""}, {modeA, "three", ""}},
			[]Batch[string]{batch(modeA, "one\ntwo", "", "three")}},
		{"m m n n", Options[string]{},
			[]push{{modeA, "1", ""}, {modeA, "2", ""}, {modeB, "3", ""}, {modeB, "4", ""}},
			[]Batch[string]{batch(modeA, "1", "2"), batch(modeB, "3", "4")}},
		{"m n m is never regrouped", Options[string]{},
			[]push{{modeA, "1", ""}, {modeB, "2", ""}, {modeA, "3", ""}},
			[]Batch[string]{batch(modeA, "1"), batch(modeB, "2"), batch(modeA, "3")}},
		{"absent is not default", Options[string]{},
			[]push{{mode.Mode{}, "1", ""}, {mode.Mode{Model: mode.Default[string]()}, "2", ""}},
			[]Batch[string]{batch(mode.Mode{}, "1"), batch(mode.Mode{Model: mode.Default[string]()}, "2")}},
		{"equal modes made apart", Options[string]{},
			[]push{{mode.Mode{AllowedTools: mode.Set([]string{"x", "y"})}, "1", ""}, {mode.Mode{AllowedTools: mode.Set([]string{"x", "y"})}, "2", ""}},
			[]Batch[string]{batch(mode.Mode{AllowedTools: mode.Set([]string{"x", "y"})}, "1", "2")}},
		{"isolated between two of its mode", Options[string]{},
			[]push{{modeA, "1", ""}, {modeA, "/compact", "isolated"}, {modeA, "2", ""}},
			[]Batch[string]{batch(modeA, "1"), isolated(modeA, "/compact"), batch(modeA, "2")}},
		{"two isolated", Options[string]{},
			[]push{{modeA, "1", "isolated"}, {modeA, "2", "isolated"}},
			[]Batch[string]{isolated(modeA, "1"), isolated(modeA, "2")}},
		{"isolate and clear, then more", Options[string]{},
			[]push{{modeA, "1", ""}, {modeB, "2", ""}, {modeA, "/clear", "clear"}, {modeA, "3", ""}},
			[]Batch[string]{isolated(modeA, "/clear"), batch(modeA, "3")}},
		{"at most two", Options[string]{MaxBatch: 2},
			[]push{{modeA, "1", ""}, {modeA, "2", ""}, {modeA, "3", ""}},
			[]Batch[string]{batch(modeA, "1", "2"), batch(modeA, "3")}},
		{"one by one", Options[string]{MaxBatch: 1},
			[]push{{modeA, "1", ""}, {modeA, "2", ""}},
			[]Batch[string]{batch(modeA, "1"), batch(modeA, "2")}},
		{"five bytes exactly", Options[string]{MaxBytes: 5, Size: size},
			[]push{{modeA, "123", ""}, {modeA, "45", ""}, {modeA, "", ""}, {modeA, "6", ""}},
			[]Batch[string]{batch(modeA, "123", "45", ""), batch(modeA, "6")}},
		{"larger alone, in front", Options[string]{MaxBytes: 5, Size: size},
			[]push{{modeA, "123456", ""}, {modeA, "", ""}, {modeA, "7", ""}},
			[]Batch[string]{batch(modeA, "123456"), batch(modeA, "", "7")}},
		{"larger alone, between", Options[string]{MaxBytes: 5, Size: size},
			[]push{{modeA, "1", ""}, {modeA, "234567", ""}, {modeA, "8", ""}},
			[]Batch[string]{batch(modeA, "1"), batch(modeA, "234567"), batch(modeA, "8")}},
		{"sizes less than none", Options[string]{MaxBytes: 5, Size: func(s string) int { return -1 << 63 }},
			[]push{{modeA, "1", ""}, {modeA, "2", ""}, {modeA, "3", ""}},
			[]Batch[string]{batch(modeA, "1", "2", "3")}},
		{"huge sizes", Options[string]{MaxBytes: 5, Size: func(s string) int { return 1<<63 - 1 }},
			[]push{{modeA, "1", ""}, {modeA, "2", ""}},
			[]Batch[string]{batch(modeA, "1"), batch(modeA, "2")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, c.options)
			for _, p := range c.pushes {
				var err error
				switch p.how {
				case "isolated":
					err = q.PushIsolated(p.item, p.mode)
				case "clear":
					_, err = q.PushIsolateAndClear(p.item, p.mode)
				default:
					err = q.Push(p.item, p.mode)
				}
				must(t, err)
			}
			same(t, "batches", drain(t, q), c.want)
		})
	}
}

func TestIsolateAndClearReturnsTheCleared(t *testing.T) {
	t.Parallel()
	q := newQueue(t, Options[string]{MaxItems: 2})
	cleared, err := q.PushIsolateAndClear("/first", modeA)
	if cleared != nil || err != nil {
		t.Errorf("on an empty queue: got %v, %v", cleared, err)
	}
	must(t, q.Push("1", modeB))
	cleared, err = q.PushIsolateAndClear("/clear", modeA)
	must(t, err) // although the queue was full
	same(t, "cleared", cleared, []Entry[string]{{"/first", modeA, true}, {"1", modeB, false}})
	same(t, "left", drain(t, q), []Batch[string]{isolated(modeA, "/clear")})
}

func TestFullRefuses(t *testing.T) {
	t.Parallel()
	q := newQueue(t, Options[string]{MaxItems: 2})
	must(t, q.Push("1", modeA))
	must(t, q.PushIsolated("2", modeA))
	for _, push := range []func(string, mode.Mode) error{q.Push, q.PushIsolated} {
		if err := push("3", modeA); !errors.Is(err, ErrFull) {
			t.Errorf("got %v, want ErrFull", err)
		}
	}
	if n := q.Len(); n != 2 {
		t.Errorf("the queue holds %d, want 2", n)
	}
	_, err := q.Next(done())
	must(t, err)
	must(t, q.Push("3", modeA))
	same(t, "left", drain(t, q), []Batch[string]{isolated(modeA, "2"), batch(modeA, "3")})
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, o := range []Options[string]{
		{MaxItems: -1}, {MaxBatch: -1}, {MaxBytes: -1, Size: func(string) int { return 0 }}, {MaxBytes: 1},
	} {
		if q, err := NewQueue(o); err == nil || q != nil || !strings.Contains(err.Error(), "MaxBytes") {
			t.Errorf("%+v: got %v, %v; want an error", o, q, err)
		}
	}
}

func TestZeroQueue(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	must(t, q.Push("1", modeA))
	same(t, "batches", drain(t, &q), []Batch[string]{batch(modeA, "1")})
}

func TestClose(t *testing.T) {
	t.Parallel()
	q := newQueue(t, Options[string]{})
	must(t, q.Push("1", modeA))
	must(t, q.Push("2", modeB))
	q.Close()
	q.Close()
	if err := q.Push("3", modeA); !errors.Is(err, ErrClosed) {
		t.Errorf("push: got %v, want ErrClosed", err)
	}
	if err := q.PushIsolated("3", modeA); !errors.Is(err, ErrClosed) {
		t.Errorf("push isolated: got %v, want ErrClosed", err)
	}
	if cleared, err := q.PushIsolateAndClear("3", modeA); !errors.Is(err, ErrClosed) || cleared != nil {
		t.Errorf("isolate and clear: got %v, %v; want ErrClosed", cleared, err)
	}
	same(t, "batches", drain(t, q), []Batch[string]{batch(modeA, "1"), batch(modeB, "2")})
	for range 2 {
		if _, err := q.Next(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("next: got %v, want ErrClosed", err)
		}
	}
	q.Close()
}

func TestNextWithADoneContext(t *testing.T) {
	t.Parallel()
	q := newQueue(t, Options[string]{})
	must(t, q.Push("1", modeA))
	b, err := q.Next(done())
	must(t, err)
	same(t, "batch", b, batch(modeA, "1"))
	if _, err := q.Next(done()); !errors.Is(err, context.Canceled) {
		t.Errorf("on an empty queue: got %v, want canceled", err)
	}
	past, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	if _, err := q.Next(past); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: got %v", err)
	}
}

func TestPeek(t *testing.T) {
	t.Parallel()
	q := newQueue(t, Options[string]{})
	must(t, q.Push("1", modeA))
	for range 2 {
		b, err := q.Peek(done())
		must(t, err)
		same(t, "peeked", b, batch(modeA, "1"))
		b.Items[0] = "changed by the caller"
	}
	must(t, q.Push("2", modeA))
	same(t, "taken", drain(t, q), []Batch[string]{batch(modeA, "1", "2")})
	if _, err := q.Peek(done()); !errors.Is(err, context.Canceled) {
		t.Errorf("on an empty queue: got %v", err)
	}
	q.Close()
	if _, err := q.Peek(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("on a closed queue: got %v", err)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	q := newQueue(t, Options[string]{})
	must(t, q.Push("1", modeA))
	must(t, q.PushIsolated("2", modeB))
	same(t, "cleared", q.Reset(), []Entry[string]{{"1", modeA, false}, {"2", modeB, true}})
	if q.Len() != 0 || q.Reset() != nil {
		t.Error("something is left")
	}
	must(t, q.Push("3", modeA))
	q.Close()
	same(t, "cleared", q.Reset(), []Entry[string]{{"3", modeA, false}})
	if err := q.Push("4", modeA); !errors.Is(err, ErrClosed) {
		t.Errorf("reset has opened a closed queue: %v", err)
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *Queue[string]){
		"push": func(t *testing.T, q *Queue[string]) {
			c := wait(t.Context(), q)
			waits(t, c)
			must(t, q.Push("1", modeA))
			same(t, "answer", got(t, c), answer[string]{batch(modeA, "1"), nil})
		},
		"isolated": func(t *testing.T, q *Queue[string]) {
			c := wait(t.Context(), q)
			must(t, q.PushIsolated("1", modeA))
			same(t, "answer", got(t, c), answer[string]{isolated(modeA, "1"), nil})
		},
		"close": func(t *testing.T, q *Queue[string]) {
			first, second := wait(t.Context(), q), wait(t.Context(), q)
			q.Close()
			for _, c := range []<-chan answer[string]{first, second} {
				if a := got(t, c); !errors.Is(a.err, ErrClosed) {
					t.Errorf("got %v, want ErrClosed", a)
				}
			}
		},
		"cancel": func(t *testing.T, q *Queue[string]) {
			ctx, cancel := context.WithCancel(t.Context())
			c := wait(ctx, q)
			cancel()
			if a := got(t, c); !errors.Is(a.err, context.Canceled) {
				t.Errorf("got %v, want canceled", a)
			}
			must(t, q.Push("1", modeA))
			same(t, "left", drain(t, q), []Batch[string]{batch(modeA, "1")})
		},
		"deadline": func(t *testing.T, q *Queue[string]) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if _, err := q.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		},
		"reset": func(t *testing.T, q *Queue[string]) {
			first, second := wait(t.Context(), q), wait(t.Context(), q)
			q.Reset()
			for _, c := range []<-chan answer[string]{first, second} {
				if a := got(t, c); !errors.Is(a.err, ErrReset) || errors.Is(a.err, ErrClosed) {
					t.Errorf("got %v, want ErrReset", a)
				}
			}
			third := wait(t.Context(), q)
			must(t, q.Push("1", modeA))
			same(t, "after it", got(t, third), answer[string]{batch(modeA, "1"), nil})
		},
		"two are served in order": func(t *testing.T, q *Queue[string]) {
			first, second := wait(t.Context(), q), wait(t.Context(), q)
			must(t, q.Push("1", modeA))
			same(t, "first", got(t, first), answer[string]{batch(modeA, "1"), nil})
			waits(t, second)
			must(t, q.Push("2", modeA))
			same(t, "second", got(t, second), answer[string]{batch(modeA, "2"), nil})
		},
		"two batches at once, two are served": func(t *testing.T, q *Queue[string]) {
			first, second := wait(t.Context(), q), wait(t.Context(), q)
			must(t, errors.Join(q.PushIsolated("1", modeA), q.PushIsolated("2", modeA)))
			same(t, "first", got(t, first), answer[string]{isolated(modeA, "1"), nil})
			same(t, "second", got(t, second), answer[string]{isolated(modeA, "2"), nil})
		},
		"the first of two is cancelled": func(t *testing.T, q *Queue[string]) {
			ctx, cancel := context.WithCancel(t.Context())
			first, second := wait(ctx, q), wait(t.Context(), q)
			cancel()
			if a := got(t, first); !errors.Is(a.err, context.Canceled) {
				t.Errorf("got %v, want canceled", a)
			}
			must(t, q.Push("1", modeA))
			same(t, "second", got(t, second), answer[string]{batch(modeA, "1"), nil})
		},
		"cancelled and pushed at once": func(t *testing.T, q *Queue[string]) {
			ctx, cancel := context.WithCancel(t.Context())
			first, second := wait(ctx, q), wait(t.Context(), q)
			cancel()
			must(t, q.Push("1", modeA))
			// Whichever it reached first, it is with one of the two.
			a := got(t, first)
			if a.err == nil {
				same(t, "first", a.batch, batch(modeA, "1"))
				waits(t, second)
				must(t, q.Push("1", modeA))
			}
			same(t, "second", got(t, second), answer[string]{batch(modeA, "1"), nil})
		},
		"one that peeks leaves it to the next": func(t *testing.T, q *Queue[string]) {
			peeked := make(chan answer[string], 1)
			go func() {
				b, err := q.Peek(t.Context())
				peeked <- answer[string]{b, err}
			}()
			synctest.Wait()
			second := wait(t.Context(), q)
			must(t, q.Push("1", modeA))
			same(t, "peeked", got(t, peeked), answer[string]{batch(modeA, "1"), nil})
			same(t, "taken", got(t, second), answer[string]{batch(modeA, "1"), nil})
		},
		"closed with something left": func(t *testing.T, q *Queue[string]) {
			first, second := wait(t.Context(), q), wait(t.Context(), q)
			must(t, q.Push("1", modeA))
			q.Close()
			same(t, "first", got(t, first), answer[string]{batch(modeA, "1"), nil})
			if a := got(t, second); !errors.Is(a.err, ErrClosed) {
				t.Errorf("got %v, want ErrClosed", a)
			}
		},
		"push, then isolate and clear": func(t *testing.T, q *Queue[string]) {
			c := wait(t.Context(), q)
			must(t, q.Push("1", modeA))
			cleared, err := q.PushIsolateAndClear("/clear", modeA)
			must(t, err)
			a := got(t, c)
			if len(cleared) > 0 {
				same(t, "cleared", cleared, []Entry[string]{{"1", modeA, false}})
				same(t, "answer", a, answer[string]{isolated(modeA, "/clear"), nil})
			} else {
				same(t, "answer", a, answer[string]{batch(modeA, "1"), nil})
				same(t, "left", drain(t, q), []Batch[string]{isolated(modeA, "/clear")})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, newQueue(t, Options[string]{})) })
		})
	}
}

// Everything at once, with real goroutines: each value comes out once, in the
// order in which its producer pushed it, and isolated ones come alone.
func TestNothingVanishes(t *testing.T) {
	t.Parallel()
	const producers, consumers, each = 4, 3, 500
	type value struct{ producer, n int }
	q := newQueue(t, Options[value]{MaxItems: 64, MaxBatch: 10})
	modes := []mode.Mode{modeA, modeB}

	var mu sync.Mutex
	seen := map[value]int{}
	count := func(v value) {
		mu.Lock()
		defer mu.Unlock()
		seen[v]++
	}
	var pushing, taking sync.WaitGroup
	for p := range producers {
		pushing.Go(func() {
			for n := range each {
				v, mode := value{p, n}, modes[n/7%2]
				for {
					var err error
					var cleared []Entry[value]
					switch {
					case n%100 == 99:
						cleared, err = q.PushIsolateAndClear(v, mode)
					case n%10 == 9:
						err = q.PushIsolated(v, mode)
					default:
						err = q.Push(v, mode)
					}
					for _, e := range cleared {
						count(e.Item)
					}
					if err == nil {
						break
					}
					if !errors.Is(err, ErrFull) {
						t.Error(err)
						return
					}
					// Room is made by those who take.
					b, err := q.Next(done())
					for _, v := range b.Items {
						count(v)
					}
					if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrReset) {
						t.Error(err)
						return
					}
				}
				if n%150 == 149 {
					for _, e := range q.Reset() {
						count(e.Item)
					}
				}
			}
		})
	}
	for range consumers {
		taking.Go(func() {
			for i := 0; ; i++ {
				ctx, cancel := context.WithCancel(context.Background())
				if i%5 == 0 {
					go cancel()
				}
				b, err := q.Next(ctx)
				cancel()
				switch {
				case errors.Is(err, ErrClosed):
					return
				case err == nil:
				case !errors.Is(err, context.Canceled) && !errors.Is(err, ErrReset):
					t.Error(err)
					return
				}
				last := map[int]int{}
				for _, v := range b.Items {
					if v.n%10 == 9 && len(b.Items) > 1 {
						t.Errorf("isolated %v came with others: %v", v, b.Items)
					}
					if modes[v.n/7%2] != b.Mode {
						t.Errorf("%v came with mode %s", v, b.Mode)
					}
					if before, ok := last[v.producer]; ok && v.n <= before {
						t.Errorf("out of order: %v", b.Items)
					}
					last[v.producer] = v.n
					count(v)
				}
			}
		})
	}
	pushing.Wait()
	q.Close()
	taking.Wait()
	if len(seen) != producers*each {
		t.Errorf("%d values came out, want %d", len(seen), producers*each)
	}
	for v, n := range seen {
		if n != 1 {
			t.Errorf("%v came out %d times", v, n)
		}
	}
}

package pipe

import (
	"context"
	"errors"
	"io"
	"iter"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

var errBroken = errors.New("broken")

func newStream(t testing.TB, values ...int) *Stream[int] {
	t.Helper()
	s := NewStream[int](0)
	for _, v := range values {
		must(t, s.Push(v))
	}
	return s
}

// collect reads a stream until its loop ends, and returns the error it ended
// with.
func collect[T any](all iter.Seq2[T, error]) (values []T, err error) {
	for v, e := range all {
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		values = append(values, v)
	}
	return values, err
}

func TestStreamEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		finish func(*Stream[int])
		next   error // what Next returns from then on
		loop   error // what a loop ends with
		push   error // what Push returns besides ErrEnded
	}{
		{"end", func(s *Stream[int]) { s.End() }, io.EOF, nil, nil},
		{"fail", func(s *Stream[int]) { s.Fail(errBroken) }, errBroken, errBroken, errBroken},
		{"fail with nothing", func(s *Stream[int]) { s.Fail(nil) }, io.EOF, nil, nil},
		{"fail, then end", func(s *Stream[int]) { s.Fail(errBroken); s.End() }, errBroken, errBroken, errBroken},
		{"end, then fail", func(s *Stream[int]) { s.End(); s.Fail(errBroken) }, io.EOF, nil, nil},
		{"fail twice", func(s *Stream[int]) { s.Fail(errBroken); s.Fail(io.ErrClosedPipe) }, errBroken, errBroken, errBroken},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			s := newStream(t, 1, 2, 3)
			c.finish(s)
			for what, err := range map[string]error{"push": s.Push(4), "send": s.Send(ctx, 4)} {
				if !errors.Is(err, ErrEnded) || c.push != nil && !errors.Is(err, c.push) {
					t.Errorf("%s: got %v, want ErrEnded %v", what, err, c.push)
				}
			}
			if s.Len() != 3 {
				t.Errorf("%d values, want 3", s.Len())
			}
			v, err := s.Next(ctx)
			if v != 1 || err != nil {
				t.Errorf("got %d, %v, want 1", v, err)
			}
			values, err := collect(s.All(ctx))
			if !reflect.DeepEqual(values, []int{2, 3}) || !errors.Is(err, c.loop) || (err == nil) != (c.loop == nil) {
				t.Errorf("got %v, %v; want 2, 3, then %v", values, err, c.loop)
			}
			for range 2 {
				if v, err := s.Next(ctx); v != 0 || err != c.next {
					t.Errorf("after it: got %d, %v, want %v", v, err, c.next)
				}
				if values, err := collect(s.All(ctx)); values != nil || !errors.Is(err, c.loop) || (err == nil) != (c.loop == nil) {
					t.Errorf("after it: got %v, %v; want %v", values, err, c.loop)
				}
			}
		})
	}
}

func TestStreamHasOneConsumer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStream(t, 1, 2)
	s.End()
	all := s.All(ctx) // not yet a consumer
	for v, err := range s.All(ctx) {
		must(t, err)
		if _, err := s.Next(ctx); !errors.Is(err, ErrBusy) {
			t.Errorf("next at %d: got %v, want ErrBusy", v, err)
		}
		if values, err := collect(all); values != nil || !errors.Is(err, ErrBusy) {
			t.Errorf("all at %d: got %v, %v, want ErrBusy", v, values, err)
		}
		if v == 1 {
			break
		}
	}
	values, err := collect(all)
	must(t, err)
	same(t, "after it", values, []int{2})
}

func TestStreamIsReleasedByAPanic(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1, 2)
	func() {
		defer func() { _ = recover() }()
		for range s.All(context.Background()) {
			panic("in the body")
		}
	}()
	v, err := s.Next(context.Background())
	if v != 2 || err != nil {
		t.Errorf("got %d, %v, want 2", v, err)
	}
}

func TestStreamPull(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1, 2)
	next, stop := iter.Pull2(s.All(context.Background()))
	if v, err, ok := next(); v != 1 || err != nil || !ok {
		t.Errorf("got %d, %v, %v", v, err, ok)
	}
	if _, err := s.Next(context.Background()); !errors.Is(err, ErrBusy) {
		t.Errorf("while it is pulled: got %v, want ErrBusy", err)
	}
	stop()
	if v, err := s.Next(context.Background()); v != 2 || err != nil {
		t.Errorf("after it: got %d, %v, want 2", v, err)
	}
}

// A done context stops each method at once, without a loss.
func TestStreamWithADoneContext(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	if err := s.Send(done(), 2); !errors.Is(err, context.Canceled) {
		t.Errorf("send: got %v, want canceled", err)
	}
	if v, err := s.Next(done()); v != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("next: got %d, %v, want canceled", v, err)
	}
	if values, err := collect(s.All(done())); values != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("all: got %v, %v, want canceled", values, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	must(t, s.Push(2))
	var seen []int
	var ended error
	for v, err := range s.All(ctx) {
		if ended = err; err != nil {
			break
		}
		seen = append(seen, v)
		cancel()
	}
	if same(t, "seen", seen, []int{1}); !errors.Is(ended, context.Canceled) {
		t.Errorf("the loop ended with %v, want canceled", ended)
	}
	if v, err := s.Next(context.Background()); v != 2 || err != nil {
		t.Errorf("left: got %d, %v, want 2", v, err)
	}
}

func TestStreamWaiting(t *testing.T) {
	t.Parallel()
	type result struct {
		value int
		err   error
	}
	next := func(ctx context.Context, s *Stream[int]) <-chan result {
		c := make(chan result, 1)
		go func() {
			v, err := s.Next(ctx)
			c <- result{v, err}
		}()
		synctest.Wait()
		return c
	}
	send := func(ctx context.Context, s *Stream[int], v int) <-chan error {
		c := make(chan error, 1)
		go func() { c <- s.Send(ctx, v) }()
		synctest.Wait()
		return c
	}
	blocked := func(t *testing.T, c <-chan error) {
		t.Helper()
		synctest.Wait()
		select {
		case err := <-c:
			t.Fatalf("Send returned %v; want it to wait", err)
		default:
		}
	}
	full := func(t *testing.T) *Stream[int] {
		s := NewStream[int](1)
		must(t, s.Push(1))
		return s
	}
	for name, test := range map[string]func(*testing.T){
		"next, then push": func(t *testing.T) {
			s := newStream(t)
			c := next(t.Context(), s)
			if _, err := s.Next(t.Context()); !errors.Is(err, ErrBusy) {
				t.Errorf("a second consumer: got %v, want ErrBusy", err)
			}
			must(t, s.Push(1))
			same(t, "got", <-c, result{1, nil})
		},
		"next, then end": func(t *testing.T) {
			s := newStream(t)
			c := next(t.Context(), s)
			s.End()
			same(t, "got", <-c, result{0, io.EOF})
		},
		"next, then fail": func(t *testing.T) {
			s := newStream(t)
			c := next(t.Context(), s)
			s.Fail(errBroken)
			same(t, "got", <-c, result{0, errBroken})
		},
		"next, cancelled, then another": func(t *testing.T) {
			s := newStream(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if r := <-next(ctx, s); !errors.Is(r.err, context.DeadlineExceeded) {
				t.Errorf("got %v", r)
			}
			c := next(t.Context(), s)
			must(t, s.Push(1))
			same(t, "got", <-c, result{1, nil})
		},
		"all waits for each": func(t *testing.T) {
			s := newStream(t)
			var got []int
			go func() {
				for n := range 3 {
					<-time.After(time.Second)
					_ = s.Push(n)
				}
				s.Fail(errBroken)
			}()
			got, err := collect(s.All(t.Context()))
			if !reflect.DeepEqual(got, []int{0, 1, 2}) || !errors.Is(err, errBroken) {
				t.Errorf("got %v, %v", got, err)
			}
		},
		"send waits for room": func(t *testing.T) {
			s := full(t)
			second, third := send(t.Context(), s, 2), send(t.Context(), s, 3)
			blocked(t, second)
			same(t, "next", <-next(t.Context(), s), result{1, nil})
			must(t, <-second)
			blocked(t, third)
			// No other caller can take the freed room.
			if err := s.Push(4); !errors.Is(err, ErrFull) {
				t.Errorf("got %v, want ErrFull", err)
			}
			same(t, "next", <-next(t.Context(), s), result{2, nil})
			must(t, <-third)
			same(t, "next", <-next(t.Context(), s), result{3, nil})
			must(t, s.Push(5))
		},
		"send, cancelled": func(t *testing.T) {
			s := full(t)
			ctx, cancel := context.WithCancel(t.Context())
			second, third := send(ctx, s, 2), send(t.Context(), s, 3)
			cancel()
			if err := <-second; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want canceled", err)
			}
			blocked(t, third)
			s.mu.Lock()
			same(t, "senders", len(s.senders), 1)
			s.mu.Unlock()
			same(t, "next", <-next(t.Context(), s), result{1, nil})
			must(t, <-third)
			same(t, "next", <-next(t.Context(), s), result{3, nil})
		},
		"send, then end": func(t *testing.T) {
			s := full(t)
			second := send(t.Context(), s, 2)
			s.End()
			if err := <-second; !errors.Is(err, ErrEnded) {
				t.Errorf("got %v, want ErrEnded", err)
			}
			same(t, "next", <-next(t.Context(), s), result{1, nil})
			same(t, "next", <-next(t.Context(), s), result{0, io.EOF})
		},
		"send, then fail": func(t *testing.T) {
			s := full(t)
			second := send(t.Context(), s, 2)
			s.Fail(errBroken)
			if err := <-second; !errors.Is(err, ErrEnded) || !errors.Is(err, errBroken) {
				t.Errorf("got %v, want ErrEnded and the failure", err)
			}
		},
		"send, cancelled as it is taken": func(t *testing.T) {
			s := full(t)
			ctx, cancel := context.WithCancel(t.Context())
			second := send(ctx, s, 2)
			_, err := s.Next(t.Context())
			must(t, err)
			cancel()
			// It was taken before the cancellation, and returns no error.
			must(t, <-second)
			same(t, "next", <-next(t.Context(), s), result{2, nil})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, test)
		})
	}
}

// One goroutine against a list and a flag.
func TestStreamIsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 5).Draw(t, "limit")
		s := NewStream[int](limit)
		var values []int
		var end error
		item := 0
		push := func(put func(int) error) {
			item++
			var want error
			switch {
			case end != nil:
				want = ErrEnded
			case limit > 0 && len(values) == limit:
				want = ErrFull
			default:
				values = append(values, item)
			}
			if err := put(item); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Fatalf("got %v, want %v", err, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) { push(s.Push) },
			"send": func(t *rapid.T) {
				if end == nil && limit > 0 && len(values) == limit {
					t.Skip("would wait")
				}
				push(func(v int) error { return s.Send(context.Background(), v) })
			},
			"next": func(t *rapid.T) {
				if len(values) == 0 && end == nil {
					t.Skip("would wait")
				}
				got, err := s.Next(context.Background())
				if len(values) == 0 {
					if got != 0 || err != end {
						t.Fatalf("got %d, %v, want %v", got, err, end)
					}
					return
				}
				if got != values[0] || err != nil {
					t.Fatalf("got %d, %v, want %d", got, err, values[0])
				}
				values = values[1:]
			},
			"loop": func(t *rapid.T) {
				n := rapid.IntRange(0, len(values)).Draw(t, "n")
				if n == 0 {
					return
				}
				var got []int
				for v, err := range s.All(context.Background()) {
					must(t, err)
					if got = append(got, v); len(got) == n {
						break
					}
				}
				if !reflect.DeepEqual(got, values[:n]) {
					t.Fatalf("got %v, want %v", got, values[:n])
				}
				values = values[n:]
			},
			"end": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
					t.Skip("an ended stream is dull")
				}
				s.End()
				if end == nil {
					end = io.EOF
				}
			},
			"fail": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
					t.Skip("a failed stream is dull")
				}
				s.Fail(errBroken)
				if end == nil {
					end = errBroken
				}
			},
			"": func(t *rapid.T) {
				if s.Len() != len(values) {
					t.Fatalf("the stream holds %d, want %d", s.Len(), len(values))
				}
			},
		})
	})
}

// Everything at once: accepted values are read once, in the order in which
// their producer sent them; refused values are not read.
func TestStreamLosesNothing(t *testing.T) {
	t.Parallel()
	const producers, each = 4, 500
	type value struct{ producer, n int }
	s := NewStream[value](8)
	var mu sync.Mutex
	taken := map[value]bool{}
	var producing sync.WaitGroup
	for p := range producers {
		producing.Go(func() {
			for n := range each {
				ctx, cancel := context.WithCancel(context.Background())
				if n%5 == 0 {
					go cancel()
				}
				err := s.Send(ctx, value{p, n})
				cancel()
				switch {
				case err == nil:
					mu.Lock()
					taken[value{p, n}] = true
					mu.Unlock()
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				}
			}
		})
	}
	go func() {
		producing.Wait()
		s.End()
	}()
	read := 0
	last := map[int]int{}
	var got []value
	for reading := true; reading; {
		reading = false
		for v, err := range s.All(context.Background()) {
			must(t, err)
			if before, ok := last[v.producer]; ok && v.n <= before {
				t.Fatalf("%v came after %d", v, before)
			}
			last[v.producer] = v.n
			got = append(got, v)
			if read++; read%50 == 0 {
				reading = true // stop, and go on with another loop
				break
			}
		}
	}
	if len(got) != len(taken) {
		t.Errorf("read %d, taken %d", len(got), len(taken))
	}
	for _, v := range got {
		if !taken[v] {
			t.Errorf("%v was read and not taken", v)
		}
	}
}

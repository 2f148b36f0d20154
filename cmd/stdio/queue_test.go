package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pausing is the reader of a pipe without a buffer. It takes text while it is not paused.
type pausing struct {
	goOn  chan struct{} // closed: it reads
	got   bytes.Buffer
	err   error
	sleep time.Duration // before each read
}

func (p *pausing) Write(b []byte) (int, error) {
	<-p.goOn
	time.Sleep(p.sleep)
	if p.err != nil {
		return 0, p.err
	}
	return p.got.Write(b)
}

func paused() *pausing { return &pausing{goOn: make(chan struct{})} }

func reading() *pausing {
	p := paused()
	close(p.goOn)
	return p
}

// queueTo returns a queue whose notices are lines, and whose writes must not fail.
func queueTo(t *testing.T, p *pausing) *Queue {
	t.Helper()
	return NewQueue(p, func(m Missing) []byte { return fmt.Appendf(nil, "<%d %d>\n", m.Lines, m.Bytes) }, func(err error) { t.Error(err) })
}

// A reader gets everything in order, however slowly it reads.
func TestQueueIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := reading()
		p.sleep = time.Second
		q := queueTo(t, p)
		var want strings.Builder
		for i := range 100 {
			line := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", i*100))
			want.WriteString(line)
			if n, err := q.Write([]byte(line)); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		if lost := q.Drain(t.Context()); lost != (Missing{}) || p.got.String() != want.String() {
			t.Errorf("%s were lost; %d bytes arrived, want %d", lost, p.got.Len(), want.Len())
		}
	})
}

// While the reader is paused, writing does not wait. Text without room is left out, and one notice in its place has
// its size.
func TestQueueLeavesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := paused()
		q := queueTo(t, p)
		q.MaxBytes = 100
		for i := range 50 {
			fmt.Fprintf(q, "%03d\n\n", i) // 5 bytes and 2 lines
		}
		synctest.Wait()
		close(p.goOn)
		synctest.Wait() // all of it is written
		fmt.Fprint(q, "after\n")
		if lost := q.Drain(t.Context()); lost != (Missing{}) {
			t.Errorf("%s were lost", lost)
		}
		var want strings.Builder
		for i := range 20 {
			fmt.Fprintf(&want, "%03d\n\n", i)
		}
		want.WriteString("<60 150>\nafter\n")
		if got := p.got.String(); got != want.String() {
			t.Errorf("got %q, want %q", got, want.String())
		}
	})
}

// A reader that takes a little and pauses again misses one piece, not every other line.
func TestQueueHasOneHole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		p := &pausing{goOn: step}
		q := queueTo(t, p)
		q.MaxBytes = 3 * writeStep
		line := func(c byte) []byte { return append(bytes.Repeat([]byte{c}, writeStep-1), '\n') }
		for _, c := range []byte("abcd") {
			q.Write(line(c))
		}
		for _, c := range []byte("ef") { // the reader takes one piece, so there is room for one more
			step <- struct{}{}
			synctest.Wait()
			q.Write(line(c))
		}
		close(step)
		synctest.Wait()
		fmt.Fprint(q, "after\n")
		if lost := q.Drain(t.Context()); lost != (Missing{}) {
			t.Errorf("%s were lost", lost)
		}
		want := string(slices.Concat(line('a'), line('b'), line('c'))) + fmt.Sprintf("<3 %d>\nafter\n", 3*writeStep)
		if got := p.got.String(); got != want {
			t.Errorf("got %d bytes, want %d: one hole", len(got), len(want))
		}
	})
}

// A single write always has room, however large it is.
func TestQueueHasRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := paused()
		q := queueTo(t, p)
		q.MaxBytes = 10
		if !q.Offer([]byte("0123456789 and more\n")) || q.Offer([]byte("a")) {
			t.Error("not the first alone was accepted")
		}
		close(p.goOn)
		q.Drain(t.Context())
		if got, want := p.got.String(), "0123456789 and more\n<0 1>\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A command waits for the reader of its output until it is told to end, and then for 3 s more.
func TestDrain(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("x", 20*writeStep-1) + "\n")
	for name, tc := range map[string]struct {
		pause time.Duration // before anything is read
		sleep time.Duration // before each piece
		told  time.Duration // when the command is told to end; 0: never
		took  time.Duration // at most
		lost  int           // pieces
	}{
		"slow":                         {sleep: time.Minute, took: 20 * time.Minute},
		"paused":                       {pause: time.Hour, took: time.Hour},
		"told to end, and read":        {told: time.Second, sleep: 150 * time.Millisecond, took: 3 * time.Second},
		"told to end, and not read":    {told: time.Second, pause: time.Hour, took: 4 * time.Second, lost: 20},
		"told to end, read in time":    {told: time.Second, pause: 3900 * time.Millisecond, took: 3900 * time.Millisecond},
		"told to end, read too slowly": {told: time.Second, sleep: 1500 * time.Millisecond, took: 4 * time.Second, lost: 18},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := paused()
				p.sleep = tc.sleep
				go func() {
					time.Sleep(tc.pause)
					close(p.goOn)
				}()
				ctx := t.Context()
				if tc.told > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.told)
					defer cancel()
				}
				q := queueTo(t, p)
				q.Write(text)
				start := time.Now()
				lost := q.Drain(ctx)
				if took := time.Since(start); took != tc.took {
					t.Errorf("it took %s, want %s", took, tc.took)
				}
				want := Missing{}
				want.add(text[len(text)-tc.lost*writeStep:])
				if lost != want {
					t.Errorf("%s lost, want %s", lost, want)
				}
				if q.Offer([]byte("late")) {
					t.Error("it accepts more afterwards")
				}
				<-q.ended
			})
		})
	}
}

// A writer that fails is reported once, and no write waits for it.
func TestQueueFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := reading()
		p.err = errors.New("broken")
		var failures atomic.Int32
		q := NewQueue(p, func(Missing) []byte { return nil }, func(err error) {
			if !errors.Is(err, p.err) {
				t.Errorf("failed with %v", err)
			}
			failures.Add(1)
		})
		for range 3 {
			if _, err := q.Write([]byte("x\n")); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if lost := q.Drain(t.Context()); lost != (Missing{}) || failures.Load() != 1 {
			t.Errorf("%s lost, %d failures", lost, failures.Load())
		}
	})
}

package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pausing is a reader of a pipe without a buffer, who takes what is written while he is
// not paused.
type pausing struct {
	goOn  chan struct{} // closed: he reads
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

// queueTo returns a queue whose notices are lines, and that must not fail.
func queueTo(t *testing.T, p *pausing) *Queue {
	t.Helper()
	return NewQueue(p, func(m Missing) []byte { return fmt.Appendf(nil, "<%d %d>\n", m.Lines, m.Bytes) }, func(err error) { t.Error(err) })
}

// Whoever reads, however slowly, gets everything in order.
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

// While nobody reads, writing does not wait. What does not fit is left out, and one
// notice in its place says how much.
func TestQueueLeavesOut(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]func(*Queue){
		"bytes": func(q *Queue) { q.MaxBytes = 100 },
		"items": func(q *Queue) { q.maxItems = 20 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := paused()
				q := queueTo(t, p)
				bound(q)
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
		})
	}
}

// A reader who takes a little and pauses again misses one piece, not every other line.
func TestQueueHasOneHole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		p := &pausing{goOn: step}
		q := queueTo(t, p)
		q.MaxBytes = 40
		for i := range 12 {
			fmt.Fprintf(q, "%03d\n", i)
		}
		synctest.Wait()
		for i := range 4 { // takes one, and one more is printed
			step <- struct{}{}
			synctest.Wait()
			fmt.Fprintf(q, "%03d\n", 12+i)
		}
		// 6 of 10 wait: 24 bytes. With the next two there is room for half as many again.
		for i := range 2 {
			step <- struct{}{}
			synctest.Wait()
			fmt.Fprintf(q, "%03d\n", 16+i)
		}
		close(step)
		if lost := q.Drain(t.Context()); lost != (Missing{}) {
			t.Errorf("%s were lost", lost)
		}
		if got := p.got.String(); strings.Count(got, "<") != 1 {
			t.Errorf("got %q, want one hole", got)
		} else if !strings.HasPrefix(got, "000\n001\n002\n003\n004\n005\n006\n007\n008\n009\n<6 24>\n016\n017\n") {
			t.Errorf("got %q", got)
		}
	})
}

// A single write is never too large, and what is urgent has as much room again.
func TestQueueHasRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := paused()
		q := queueTo(t, p)
		q.MaxBytes = 10
		for i, tc := range []struct {
			text         string
			urgent, want bool
		}{
			{"0123456789 and more\n", false, true},
			{"a", false, false},
			{"a", true, false}, // nor this, with one so large
			{"", false, true},
		} {
			if got := q.Offer([]byte(tc.text), tc.urgent); got != tc.want {
				t.Errorf("%d: accepted %v, want %v", i, got, tc.want)
			}
		}
		close(p.goOn)
		synctest.Wait()
		p.goOn = make(chan struct{})
		for i, tc := range []struct {
			text         string
			urgent, want bool
		}{
			{"01234567\n", false, true},
			{"ab", false, false},
			{"question\n", true, true},
			{"abc", true, false},
		} {
			if got := q.Offer([]byte(tc.text), tc.urgent); got != tc.want {
				t.Errorf("%d again: accepted %v, want %v", i, got, tc.want)
			}
		}
		close(p.goOn)
		q.Drain(t.Context())
		if got, want := p.got.String(), "0123456789 and more\n<0 2>\n01234567\n<0 2>\nquestion\n<0 3>\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Until it was told to end, a command waits for whoever reads its output. Then it gives
// him 2 s for each piece, and 10 s in all.
func TestDrain(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("x", 20*writeStep-1) + "\n")
	for name, tc := range map[string]struct {
		pause time.Duration // before anything is read
		sleep time.Duration // before each piece of 4 KiB
		told  time.Duration // when the command is told to end; 0: never
		took  time.Duration // at most
		lost  bool
	}{
		"slow":                         {sleep: time.Minute, took: 20 * time.Minute},
		"paused":                       {pause: time.Hour, took: time.Hour},
		"told to end, and read":        {told: time.Second, sleep: 400 * time.Millisecond, took: 8 * time.Second},
		"told to end, and not read":    {told: time.Second, pause: time.Hour, took: 3 * time.Second, lost: true},
		"told to end, read in time":    {told: time.Second, pause: 2900 * time.Millisecond, took: 2900 * time.Millisecond},
		"told to end, read too slowly": {told: time.Second, sleep: 1900 * time.Millisecond, took: 11 * time.Second, lost: true},
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
				if tc.lost {
					want.add(text)
				}
				if lost != want {
					t.Errorf("%s lost, want %s", lost, want)
				}
				if q.Offer([]byte("late"), true) {
					t.Error("it accepts more afterwards")
				}
				<-q.ended
			})
		})
	}
}

// A writer that fails is reported once, and nobody waits for it.
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

package pipe

import (
	"context"
	"math"
	"testing"
	"time"

	"teambridge/relay/mode"
)

// inAndOut are ways to put n values in and take them out again.
var inAndOut = map[string]func(n int){
	"queue, all in one batch": func(n int) {
		var q Queue[int]
		queueInAndOut(&q, n, func(int) mode.Mode { return modeA })
	},
	"queue, each its own batch": func(n int) {
		var q Queue[int]
		queueInAndOut(&q, n, func(i int) mode.Mode { return []mode.Mode{modeA, modeB}[i%2] })
	},
	"queue, batches of 10": func(n int) {
		q, _ := NewQueue(Options[int]{MaxBatch: 10, MaxBytes: 64 << 10, Size: func(int) int { return 100 }})
		queueInAndOut(q, n, func(int) mode.Mode { return modeA })
	},
	"queue, never empty": func(n int) {
		q, _ := NewQueue(Options[int]{MaxBatch: 1})
		for i := range n / 2 {
			_ = q.Push(i, modeA)
		}
		for i := range n / 2 {
			_ = q.Push(i, modeA)
			_, _ = q.Next(context.Background())
		}
	},
	"queue, looked at before each": func(n int) {
		q, _ := NewQueue(Options[int]{MaxBatch: 10})
		for i := range n {
			_ = q.Push(i, modeA)
		}
		for q.Len() > 0 {
			_, _ = q.Peek(context.Background())
			_, _ = q.Next(context.Background())
		}
	},
	"stream": func(n int) {
		var s Stream[int]
		for i := range n {
			_ = s.Push(i)
		}
		s.End()
		for range s.All(context.Background()) {
		}
	},
}

func queueInAndOut(q *Queue[int], n int, mode func(int) mode.Mode) {
	for i := range n {
		_ = q.Push(i, mode(i))
	}
	q.Close()
	for out := 0; out < n; {
		b, err := q.Next(context.Background())
		if err != nil {
			panic(err)
		}
		out += len(b.Items)
	}
}

// ratio returns how much longer each of 200,000 takes than each of 20,000: 1 if
// the time is linear, 10 if each takes time in proportion to their number. The
// best of several runs counts, and a good enough one ends the test: other load
// of the machine can only make them worse.
func ratio(run func(n int), enough float64) float64 {
	each := func(n int) float64 {
		start := time.Now()
		run(n)
		return float64(time.Since(start)) / float64(n)
	}
	few, many := math.Inf(1), math.Inf(1)
	for range 5 {
		few, many = min(few, each(20_000)), min(many, each(200_000))
		if many/few <= enough {
			break
		}
	}
	return many / few
}

func TestFifoLetsGo(t *testing.T) {
	t.Parallel()
	var f fifo[*int]
	next, out := 0, 0
	take := func(n int) {
		for _, p := range f.all()[:n] {
			if *p != out {
				t.Fatalf("got %d, want %d", *p, out)
			}
			out++
		}
		f.drop(n)
	}
	for round := range 200 {
		for range round % 17 {
			n := next
			f.push(&n)
			next++
		}
		take(min(f.len(), round%13))
		if f.len() != next-out {
			t.Fatalf("holds %d, want %d", f.len(), next-out)
		}
		// The underlying array must not keep taken values alive.
		held := 0
		for _, p := range f.items[:cap(f.items)] {
			if p != nil {
				held++
			}
		}
		if held != f.len() {
			t.Fatalf("the array holds %d, the list %d", held, f.len())
		}
	}
	for n := range 100_000 {
		f.push(&n)
	}
	f.drop(f.len())
	if cap(f.items) > keep {
		t.Errorf("empty, it keeps room for %d", cap(f.items))
	}
}

// BenchmarkInAndOut prints, for 200,000 values put in and taken out, the time
// of each and how it compares to that of each of 20,000.
func BenchmarkInAndOut(b *testing.B) {
	for name, run := range inAndOut {
		b.Run(name, func(b *testing.B) {
			const n = 200_000
			for b.Loop() {
				run(n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
			b.ReportMetric(ratio(run, 0), "ratio")
		})
	}
}

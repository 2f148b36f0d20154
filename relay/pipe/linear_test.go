package pipe

import (
	"context"
	"math"
	"testing"
	"time"
)

// inAndOut puts n values into a queue, all in one batch, and takes them out again.
func inAndOut(n int) {
	var q Queue[int]
	for i := range n {
		_ = q.Push(i, modeA)
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
// best of several runs counts: other load of the machine can only make them worse.
func ratio() float64 {
	each := func(n int) float64 {
		start := time.Now()
		inAndOut(n)
		return float64(time.Since(start)) / float64(n)
	}
	few, many := math.Inf(1), math.Inf(1)
	for range 5 {
		few, many = min(few, each(20_000)), min(many, each(200_000))
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
	const n = 200_000
	for b.Loop() {
		inAndOut(n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
	b.ReportMetric(ratio(), "ratio")
}

package tmux

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkDeliver measures the time from Deliver to the first byte in the program, and to the confirmation, p50 and p99 in ms. Most
// of both are waits that safety needs, which the second name of a metric says:
//
//   - before the paste, 200 ms between two equal readings of the composer;
//   - before Enter, 25 ms in which the input queue stays empty, 80 ms and 150 ms after that, so that text and Enter are not
//     read as one;
//   - after Enter, two readings 100 ms apart without the text in the composer.
//
// A busy program reads at once here. One that does not read adds what it takes.
func BenchmarkDeliver(b *testing.B) {
	for _, state := range []string{"idle", "busy"} {
		b.Run(state, func(b *testing.B) {
			a := startAgent(b, state)
			var first, confirmed []time.Duration
			for b.Loop() {
				m := message("hello")
				read := len(a.all("read"))
				arrived := make(chan time.Time, 1)
				go func() {
					a.waitCount("read", read+1)
					arrived <- time.Now()
				}()
				start := time.Now()
				d := delivery{ref: a.ref, profile: Claude, message: m, timing: usual}
				o, err := d.deliver(context.Background())
				if err != nil || o.State != Confirmed {
					b.Fatalf("%+v, %v", o, err)
				}
				confirmed = append(confirmed, time.Since(start))
				first = append(first, (<-arrived).Sub(start))
			}
			waits := usual.drained + usual.settle + time.Duration(usual.zeros)*usual.poll
			report(b, "first-byte", rest, first)
			report(b, "confirmed", rest+waits+2*usual.look, confirmed)
			b.ReportMetric(0, "ns/op")
		})
	}
}

// report says how long it took in all, and how much of it was waits.
func report(b *testing.B, what string, waits time.Duration, took []time.Duration) {
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[(len(took)-1)*p/100].Microseconds())/1000, fmt.Sprintf("ms-%s-p%d-with-%dms-waits", what, p, waits.Milliseconds()))
	}
}

package watch

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
)

// From the rename of an inbox, under its lock, to the event at the reader.
func BenchmarkRenameToNext(b *testing.B) {
	for name, unlocked := range map[string]bool{"locked": false, "unlocked": true} {
		b.Run(name, func(b *testing.B) {
			p := newClaude(b)
			p.mkdir("teams/a/inboxes")
			alice := p.inbox("a/alice")
			p.write(alice, "[]")
			w := start(b, New(Options{Root: p.root}))
			for e := next(b, w); e.Kind != Changed; e = next(b, w) {
				e.Close()
			}
			ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
			defer cancel()
			var took []time.Duration
			text := fmt.Appendf(nil, "%*d", 40_000, 1)
			for b.Loop() {
				var begin time.Time
				change := func() error {
					tmp := alice + ".tmp.0123abcd"
					if err := os.WriteFile(tmp, text, 0o600); err != nil {
						return err
					}
					begin = time.Now()
					return os.Rename(tmp, alice)
				}
				if unlocked {
					p.must(change())
				} else {
					p.must(locked(alice, change))
				}
				e, err := w.Next(ctx)
				if err != nil {
					b.Fatal(err)
				}
				e.Close()
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// One sweep over 100 idle teams with 10 inboxes each. What it takes of a core
// at one in 2 s, and the memory of a watcher of that size.
func BenchmarkSweep(b *testing.B) {
	p := newClaude(b)
	for i := range 100 {
		team := fmt.Sprintf("t%d", i)
		p.mkdir("teams/" + team + "/inboxes")
		p.write(p.path("teams/"+team+"/config.json"), "{}")
		for j := range 10 {
			p.write(p.inbox(fmt.Sprintf("%s/m%d", team, j)), "[]")
		}
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / 1024
	}
	before := heap()
	w := New(Options{Root: p.root})
	w.root, w.top = &dir{path: p.root}, &dir{path: p.path("teams")}
	w.connect()
	defer func() {
		w.disconnect()
		w.pumps.Wait()
		w.queue.stop()
	}()
	w.rescan()
	for {
		ctx, cancel := context.WithTimeout(b.Context(), 50*time.Millisecond)
		e, err := w.Next(ctx)
		cancel()
		if err != nil {
			break
		}
		e.Close()
	}
	b.ReportAllocs()
	for b.Loop() {
		w.findEventless()
		w.scanTop(false, true)
		for _, t := range w.teams {
			w.scan(t, true)
		}
	}
	b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/2, "%core")
	b.ReportMetric(heap()-before, "KiB")
}

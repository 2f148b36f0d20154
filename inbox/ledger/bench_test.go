package ledger

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkProcess measures the ledger's part of a whole process that sends one
// message: open, look up, intend, written. "nothing" is the same binary doing
// nothing; take it off. The median is the figure to go by, one fsync in a
// hundred takes ten times the others.
//
//	go test -run '^$' -bench Process -benchtime 300x ./inbox/ledger
func BenchmarkProcess(b *testing.B) {
	for _, name := range []string{"nothing", "leave", "close"} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "ledger.db")
			mustOpen(b, path).Close()
			times := make([]time.Duration, 0, b.N)
			for i := 0; b.Loop(); i++ {
				cmd := child(b.Context(), name, path, fmt.Sprint(i))
				start := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "median-ms")
			b.ReportMetric(float64(times[len(times)*95/100].Microseconds())/1000, "p95-ms")
		})
	}
}

// BenchmarkSend measures the steps in a process that keeps its ledger open.
func BenchmarkSend(b *testing.B) {
	l := newLedger(b)
	n := 0
	send := func() Send {
		n++
		return aSend(fmt.Sprint(n))
	}
	fail := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("lookup", func(b *testing.B) {
		for b.Loop() {
			_, _, err := l.Recall(b.Context(), send().SendKey)
			fail(err)
		}
	})
	b.Run("intend", func(b *testing.B) {
		for b.Loop() {
			fail(l.Intend(b.Context(), send()))
		}
	})
	b.Run("intend and written", func(b *testing.B) {
		for b.Loop() {
			s := send()
			fail(l.Intend(b.Context(), s))
			fail(l.Written(b.Context(), s.SendKey, tuesday))
		}
	})
}

// BenchmarkPrune measures forgetting 10,000 of 20,000 messages.
func BenchmarkPrune(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		l := newLedger(b)
		const fill = `INSERT INTO sends SELECT '/home/ann/.claude', 'blue', 1, 'bob',
			format('%08x-0000-4000-8000-%012x', value*2654435761%4294967296, value), zeroblob(32), 'size 12', 'written', value
			FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value+1 FROM n WHERE value<20000) SELECT value FROM n)`
		if err := run(l, fill); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if n, err := l.Prune(b.Context(), time.UnixMicro(10_001)); err != nil || n != 10_000 {
			b.Fatalf("pruned %d, %v", n, err)
		}
	}
}

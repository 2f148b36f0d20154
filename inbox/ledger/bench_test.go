package ledger

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teambridge/relay/relaytest/killtest"
)

// BenchmarkProcess measures the ledger's part of a whole process that sends one message: open, look up, intend,
// written. "nothing" is the same binary without work, to be subtracted. Use the median: one fsync in a hundred takes
// ten times as long as the others.
//
//	go test -run '^$' -bench Process -benchtime 300x ./inbox/ledger
func BenchmarkProcess(b *testing.B) {
	for _, name := range []string{"nothing", "leave", "close"} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "ledger.db")
			mustOpen(b, path).Close()
			times := make([]time.Duration, 0, b.N)
			for i := 0; b.Loop(); i++ {
				cmd := killtest.Command(b.Context(), name, path, fmt.Sprint(i))
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
			_, _, err := l.Sends.Recall(b.Context(), send().SendKey)
			fail(err)
		}
	})
	b.Run("intend", func(b *testing.B) {
		for b.Loop() {
			fail(l.Sends.Intend(b.Context(), send()))
		}
	})
	b.Run("intend and written", func(b *testing.B) {
		for b.Loop() {
			s := send()
			fail(l.Sends.Intend(b.Context(), s))
			fail(l.Sends.Written(b.Context(), s.SendKey, tuesday))
		}
	})
}

// fillSends records n written messages in the ledger, each at its number in microseconds.
func fillSends(tb testing.TB, l *Ledger, n int) {
	tb.Helper()
	err := run(l, fmt.Sprintf(`INSERT INTO sends SELECT '/home/ann/.claude', 'blue', 1, 'bob',
		format('%%08x-0000-4000-8000-%%012x', value*2654435761%%4294967296, value), zeroblob(32), 'size 12', 'written', value, 0
		FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value+1 FROM n WHERE value<%d) SELECT value FROM n)`, n))
	if err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkPrune measures how long it takes to forget 10,000 of 20,000 messages.
func BenchmarkPrune(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		l := newLedger(b)
		fillSends(b, l, 20_000)
		b.StartTimer()
		if n, err := l.Prune(b.Context(), time.UnixMicro(10_001)); err != nil || n != 10_000 {
			b.Fatalf("pruned %d, %v", n, err)
		}
	}
}

// BenchmarkRelay measures what the ledger adds to one row on its way to the agent, in a relay that keeps its ledger
// open. Claim and commit wait for the disk. An agent waits for claim, mark, waiting, commit and tried.
func BenchmarkRelay(b *testing.B) {
	for _, size := range []int{300, 128 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := newLedger(b)
			raw := bytes.Repeat([]byte("x"), size)
			steps := []string{"claim", "mark", "waiting", "commit", "tried", "accepted", "done"}
			times := make([][]time.Duration, len(steps)+1)
			for i := 0; b.Loop(); i++ {
				d := aRow(fmt.Sprintf("%08x-d", i*2654435761%(1<<32)))
				f := aFrame(fmt.Sprintf("%08x-f", i*2654435761%(1<<32)))
				d.Raw, f.Bytes = raw, raw
				begin := time.Now()
				for s, step := range []func() error{
					func() error { return l.Deliveries.Claim(b.Context(), d) },
					func() error { return l.Deliveries.Mark(b.Context(), d.UUID) },
					func() error { _, err := l.Deliveries.Waiting(b.Context(), bob); return err },
					func() error { return l.Frames.Commit(b.Context(), f, d.UUID) },
					func() error { return l.Frames.Tried(b.Context(), f.UUID, "session") },
					func() error { return l.Frames.Advance(b.Context(), f.UUID, Accepted, "") },
					func() error { return l.Frames.Advance(b.Context(), f.UUID, Done, "") },
				} {
					start := time.Now()
					if err := step(); err != nil {
						b.Fatal(err)
					}
					times[s] = append(times[s], time.Since(start))
					if steps[s] == "tried" {
						times[len(steps)] = append(times[len(steps)], time.Since(begin))
					}
				}
			}
			for s, name := range append(steps, "to-pipe") {
				slices.Sort(times[s])
				b.ReportMetric(float64(times[s][len(times[s])/2].Microseconds())/1000, name+"-ms")
			}
			p99 := times[len(steps)][len(times[len(steps)])*99/100]
			b.ReportMetric(float64(p99.Microseconds())/1000, "to-pipe-p99-ms")
		})
	}
}

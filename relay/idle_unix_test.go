//go:build unix

package relay

import (
	"os"
	"syscall"
	"testing"
	"time"

	"teambridge/relay/relaytest/simchild"
)

// BenchmarkIdle measures a relay with nothing to do, for as long as
// RELAY_BENCH_IDLE says (a duration; 30 s): the CPU time of this process, as a
// share of one core, and how often it woke up, as voluntary context switches.
// The agent is another process and not counted.
//
//	go test -run '^$' -bench Idle -benchtime 1x ./relay
func BenchmarkIdle(b *testing.B) {
	span := 30 * time.Second
	if d, err := time.ParseDuration(os.Getenv("RELAY_BENCH_IDLE")); err == nil {
		span = d
	}
	for b.Loop() {
		s := newStation(b, simchild.Script{})
		opts := s.options()
		opts.Timing = Timing{} // as it is in use
		done := ends(&opts)
		_, stop := s.relay(opts)
		s.send("[m]")
		<-done
		s.until("idle", func(st Status) bool { return st.State == Idle && !st.LastDone.IsZero() })
		<-time.After(time.Second) // what the last message left to do
		before, start := usage(b), time.Now()
		<-time.After(span)
		after, took := usage(b), time.Since(start)
		stop()
		cpu := time.Duration(syscall.TimevalToNsec(after.Utime) + syscall.TimevalToNsec(after.Stime) - syscall.TimevalToNsec(before.Utime) - syscall.TimevalToNsec(before.Stime))
		b.ReportMetric(float64(cpu.Microseconds())/1000, "cpu-ms")
		b.ReportMetric(100*cpu.Seconds()/took.Seconds(), "%core")
		b.ReportMetric(float64(after.Nvcsw-before.Nvcsw)/took.Seconds(), "wakeups/s")
	}
}

func usage(b *testing.B) (u syscall.Rusage) {
	b.Helper()
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u
}

package journal

import (
	"testing"
	"time"

	"teambridge/relay/relaytest/simagent"
)

// BenchmarkTap sends 500 messages a second through the inbox of a simulated agent of each kind, which takes them as
// the real one does, and reports how many percent were not recorded. The machine also runs the sender and the agent.
// Use -benchtime 10s to see a tenth of a percent.
func BenchmarkTap(b *testing.B) {
	for _, member := range []string{"teammate", "lead"} {
		b.Run(member, func(b *testing.B) {
			c, j := newClaude(b), newJournal(b)
			opts := simagent.TeamOptions{Root: c.root.Path(), Name: "blue", Members: []simagent.Member{{Name: "ann"}}}
			if member == "lead" {
				opts.Poll = time.Second // as leads do
			}
			team, err := simagent.Create(b.Context(), opts)
			must(b, err)
			play(b, team.Run)
			r := c.tap(j)
			b.ResetTimer()
			start := time.Now()
			sent := flood(b, team, b.N, 2*time.Millisecond)
			rate := float64(b.N) / time.Since(start).Seconds()
			took, err := team.Agent("ann").Wait(b.Context(), b.N)
			must(b, err)
			b.StopTimer()
			missed := r.recorded(took, sent)
			b.ReportMetric(rate, "rows/s")
			b.ReportMetric(100*float64(missed)/float64(b.N), "%missed")
			b.ReportMetric(float64(missed), "missed")
		})
	}
}

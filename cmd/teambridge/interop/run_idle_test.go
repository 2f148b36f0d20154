package interop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// 20 messages, one to four at a time, at random instants around the ends of an idle
// agent and its starts: each is given to the model once, in order, in one session.
func TestRealIdleExit(t *testing.T) {
	t.Parallel()
	for _, v := range []teams.Version{standin.Oldest(t), standin.Newest(t)} {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			rnd := rand.New(rand.NewPCG(seed, uint64(v.Patch)))
			t.Logf("seed %d", seed)
			h := newHeadless(t, v, nil)
			h.start("--idle-exit", "50ms")
			h.wait("asleep", func(s saying) bool { return s.Status == "asleep" && s.PID == 0 })
			var markers []string
			for len(markers) < 20 {
				for range min(1+rnd.IntN(4), 20-len(markers)) {
					markers = append(markers, fmt.Sprintf("<m-%02d>", len(markers)))
					h.send(markers[len(markers)-1])
				}
				if rnd.IntN(3) == 0 {
					h.settled(len(markers)) // the next come at the end, and not at the start
				}
				<-time.After(time.Duration(rnd.IntN(1800)) * time.Millisecond)
			}
			all := h.settled(len(markers))
			starts, ends, last := map[int]bool{}, 0, ""
			for _, s := range h.sayings() {
				if s.PID != 0 {
					starts[s.PID] = true
				}
				if s.Status == "asleep" && last != "asleep" {
					ends++
				}
				if s.Status != "" {
					last = s.Status
				}
				if s.Status == "backing off" {
					t.Errorf("an end that was asked for was taken for a death: %+v", s)
				}
			}
			h.finish()
			if len(all) != len(markers) {
				t.Errorf("%d deliveries, want %d", len(all), len(markers))
			}
			for _, d := range all {
				if d.State != ledger.Done {
					t.Errorf("%s is %s (%s)", d.Raw, d.State, d.Reason)
				}
			}
			var order []string
			for _, r := range h.asked() {
				var here []string
				for _, m := range markers {
					if r.Has(m) {
						here = append(here, m)
					}
				}
				order = append(order, here...)
			}
			if !slices.Equal(order, markers) {
				t.Errorf("the model was given %q, want %q", order, markers)
			}
			sessions := map[string]bool{}
			for _, s := range h.sayings() {
				if s.Session != "" {
					sessions[s.Session] = true
				}
			}
			if len(starts) < 2 || len(sessions) != 1 {
				t.Errorf("%d agents in %d sessions, want several in one", len(starts), len(sessions))
			}
			t.Logf("%d messages, %d agents, ended %d times for being idle", len(markers), len(starts), ends)
		})
	}
}

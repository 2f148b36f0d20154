package main

import (
	"testing"

	"teambridge/relay/probe"
	"teambridge/status/api"
)

// A reason that several points have is printed once.
func TestReasonIsToldOnce(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	for i, c := range []struct{ found, why, want string }{
		{probe.Unsure.String(), "no prompt", "not measured: no prompt"},
		{probe.Yes.String(), "", "it is so"},
		{probe.Unsure.String(), "no prompt", "not measured, as above"},
		{probe.Unsure.String(), "no team", "not measured: no team"},
		{probe.Unsure.String(), "no prompt", "not measured, as above"},
	} {
		if got := meaning(api.ProbePoint{Found: c.found, Why: c.why, Means: "it is so"}, said); got != c.want {
			t.Errorf("point %d: got %q, want %q", i, got, c.want)
		}
	}
}

func TestLasted(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{8.2: "8.2s", 0.1: "100ms", 61.7: "1m1.7s", 12: "12s"} {
		if got := lasted(seconds).String(); got != want {
			t.Errorf("%v s: got %s, want %s", seconds, got, want)
		}
	}
}

package main

import (
	"testing"

	"teambridge/relay/probe"
	"teambridge/status/api"
)

// A reason that many points have is told once.
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

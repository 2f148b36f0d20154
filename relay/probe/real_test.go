package probe_test

import (
	"testing"

	"teambridge/relay/probe"
	"teambridge/relay/sim/standin"
	"teambridge/teams"
)

// What is expected of a version is what it does.
func TestRealVersions(t *testing.T) {
	standin.ForEach(t, func(t *testing.T, v teams.Version) {
		r, err := probe.Run(t.Context(), probe.Options{Command: standin.Require(t, v), Progress: func(s string) { t.Log(s) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s took %s", r.Version, r.Took)
		for _, f := range r.Points {
			switch {
			case f.Unmeasured():
				t.Errorf("%s was not measured: %s", f.Name, f.Why)
			case f.Changed():
				t.Errorf("%s: found %s, expected %s", f.Name, f.Found, f.Expected)
			}
		}
	})
}

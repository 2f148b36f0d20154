package probe_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"teambridge/relay/probe"
	"teambridge/teams"
	"teambridge/teams/errtest"
)

var must = errtest.Must

// CONTRACT.md has the points that came after the oldest supported version, with the same versions as the probe.
func TestContractVersions(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "contract", "CONTRACT.md"))
	must(t, err)
	written := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]\w+) \| (2\.\d+\.\d+) \| (2\.\d+\.\d+) \|`).FindAllStringSubmatch(string(data), -1) {
		written[row[1]] = row[2] + " without, " + row[3] + " with"
	}
	for _, p := range probe.Points() {
		want := ""
		if p.With.Known() {
			want = p.Without.String() + " without, " + p.With.String() + " with"
			if p.Without.Outdated() || p.Without.Compare(p.With) >= 0 {
				t.Errorf("%s: %s", p.Name, want)
			}
		}
		if got := written[p.Name]; got != want {
			t.Errorf("%s: CONTRACT.md has %q, the probe %q", p.Name, got, want)
		}
		delete(written, p.Name)
	}
	for name := range written {
		t.Errorf("CONTRACT.md has %s, the probe does not", name)
	}
}

// The expected result is unsure for a version between the two that were measured.
func TestExpected(t *testing.T) {
	t.Parallel()
	p := probe.Point{Without: teams.Version{Major: 2, Minor: 1, Patch: 265}, With: teams.Version{Major: 2, Minor: 1, Patch: 270}}
	for patch, want := range map[int]probe.Answer{257: probe.No, 265: probe.No, 266: probe.Unsure, 269: probe.Unsure, 270: probe.Yes, 999: probe.Yes} {
		v := teams.Version{Major: 2, Minor: 1, Patch: patch}
		if got := p.Expected(v); got != want {
			t.Errorf("%s: %s, want %s", v, got, want)
		}
		if got := (probe.Point{}).Expected(v); got != probe.Yes {
			t.Errorf("%s, of all: %s", v, got)
		}
	}
}

package bridge

import (
	"errors"
	"strings"
	"testing"

	"teambridge/status/api"
	"teambridge/teams"
)

// A name means a relay by its id, or else by its member, or else by the beginning of its id. If several match,
// none is chosen, and the error lists them.
func TestRelayQuery(t *testing.T) {
	t.Parallel()
	root, err := teams.Open(t.TempDir())
	must(t, err)
	defer root.Close()
	here := root.Path()
	all := []candidate{
		{"3f001", here, "red", "team-lead"},
		{"3f002", here, "blue", "team-lead"},
		{"aa03", here, "red", "worker"},
		{"aa03b", here, "red", "3f"},
		{"bb044", "/elsewhere", "red", "stranger"},
	}
	for _, tc := range []struct {
		text, team string
		want       int
		several    []string
	}{
		{text: "3f001", want: 0},
		{text: "3f00", want: -1, several: []string{"3f001 (team-lead@red)", "3f002 (team-lead@blue)"}},
		{text: "aa03", want: 2}, // the id, although it begins another
		{text: "3f", want: 3},   // the member, although it begins ids
		{text: "bb04", want: 4},
		{text: "bb0", want: -1}, // too short
		{text: "worker", want: 2},
		{text: "lead", want: -1, several: []string{"3f001 (team-lead@red)", "3f002 (team-lead@blue)"}},
		{text: "lead", team: "blue", want: 1},
		{text: "stranger", want: -1}, // of another Claude directory
		{text: "nobody", want: -1},
		{text: "", want: -1},
	} {
		got, err := pick(t.Context(), root, tc.team, tc.text, all)
		if got != tc.want || (err != nil) != (len(tc.several) > 0) {
			t.Errorf("%q in team %q: %d, %v; want %d", tc.text, tc.team, got, err, tc.want)
		}
		var decided *api.Decided
		if err != nil && (!errors.As(err, &decided) || decided.Code != api.CodeUsage || !strings.Contains(decided.Hint, strings.Join(tc.several, ", "))) {
			t.Errorf("%q: %+v, want a usage error that names %q", tc.text, err, tc.several)
		}
	}
}

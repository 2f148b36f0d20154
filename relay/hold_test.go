package relay

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/teams/teamstest"
)

// Where the file system ignores case, two relays whose names for the team or the member differ in case would both
// take the rows of one file. On Linux, TMPDIR has to be on such a file system.
func TestOneRelayForNamesThatDifferInCase(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.OlderVersion)
	if _, err := os.Stat(filepath.Join(f.Root.Path(), "TEAMS")); err != nil {
		t.Skip("names that differ in case are two files here")
	}
	first, err := Hold(t.Context(), f.State, f.Team(teamstest.Older), "worker", 0)
	must(t, err)
	for _, name := range []struct{ team, member string }{{teamstest.Older, "Worker"}, {strings.ToUpper(teamstest.Older), "worker"}} {
		team := f.Team(name.team)
		if second, err := Hold(t.Context(), f.State, team, name.member, 0); !errors.Is(err, ErrBusy) {
			t.Errorf("a second relay, for %s@%s: %v, %v, want ErrBusy", name.member, name.team, second, err)
		}
		if running, err := Running(f.State, team, name.member); err != nil || !running {
			t.Errorf("%s@%s is relayed: %t, %v", name.member, name.team, running, err)
		}
	}
	if err := first.Release(); err != nil {
		t.Error(err)
	}
}

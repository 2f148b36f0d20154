package teams

import (
	"fmt"
	"os"
	"testing"

	"teambridge/teams/proc"
)

// A team that we made, and that a living process of ours leads, is not taken from that process. It is removed once
// that process is known to have given it up.
func TestTeamOfALivingProcessIsLeftAlone(t *testing.T) {
	t.Parallel()
	root, f, config := orphaned(t)
	parent := os.Getppid()
	now, err := proc.Read(parent)
	must(t, err)
	_, mine := thisProcess()
	change(t, config, `"procStart": "9`+mine, `"procStart": "`+now.Start)
	change(t, config, fmt.Sprintf(`"pid": %d`, os.Getpid()), fmt.Sprintf(`"pid": %d`, parent))
	f.Leaders = append(f.Leaders, leaderOf(t, root))
	if !teamConfig(t, root).IsOwned(f) {
		t.Fatal("it is not known again")
	}
	untouched(t, root, f, config)
	if removed, err := root.DiscardLed(t.Context(), f); !removed || err != nil {
		t.Errorf("given up: removed %v, %v", removed, err)
	}
}

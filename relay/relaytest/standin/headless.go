package standin

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"teambridge/relay/process"
	"teambridge/relay/relaytest/model"
	"teambridge/teams"
)

// Headless is a [model.Headless], and Frame a line that it printed.
type (
	Headless = model.Headless
	Frame    = model.Frame
)

// StartHeadless is [model.StartHeadless] with a version. The process is ended when the test ends. If it is not installed
// the test is skipped or fails, see Require.
func StartHeadless(t testing.TB, v teams.Version, h *Home, args ...string) *Headless {
	t.Helper()
	p, err := model.StartHeadless(Require(t, v), &h.Home, args...)
	if err != nil {
		t.Fatal(err)
	}
	// It ends at the end of its stdin, but not before a turn is over, and a team's lead not at all.
	group, err := startGuard([]string{"PATH=" + os.Getenv("PATH")}, `kill -s KILL -- "-$0"`, strconv.Itoa(p.Pid()))
	if err != nil {
		_ = process.KillGroup(p.Pid())
		t.Fatalf("standin: guard headless Claude Code: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		p.Close(ctx)
		group.disarm()
		if t.Failed() {
			t.Logf("standin: headless %v:\n%s", v, p.Screen())
		}
	})
	return p
}

package standin_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// within bounds one wait of a test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// versions runs a test with [standin.ForSome], side by side.
func versions(t *testing.T, test func(t *testing.T, v teams.Version)) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		test(t, v)
	})
}

// TestNothingStaysBehind: after the end of a test, the processes, the server and the files of its team are gone.
func TestNothingStaysBehind(t *testing.T) {
	versions(t, func(t *testing.T, v teams.Version) {
		standin.Require(t, v)
		var team *standin.Team
		t.Run("inner", func(t *testing.T) {
			team = standin.StartTeam(t, v, nil)
		})
		if team == nil {
			t.Skip("no team")
		}
		if standin.Alive(team.Lead.Pid()) {
			t.Errorf("Claude Code, process %d, is still there", team.Lead.Pid())
		}
		if pids := standin.Strays(team.Home); len(pids) > 0 {
			t.Errorf("processes of the home are still there: %v", pids)
		}
		if _, err := os.Stat(team.Root); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the root is still there: %v", err)
		}
	})
}

// TestCompaction: a compaction does not count a text again, but sending the text again does.
func TestCompaction(t *testing.T) {
	versions(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, nil)
		p := standin.StartHeadless(t, v, h)
		ctx := within(t)
		for _, text := range []string{"first [m]", "second"} {
			must(t, p.Prompt(ctx, text))
		}
		if _, err := p.Send("/compact"); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Await(ctx, "the compaction", func(f standin.Frame) bool { return f.Subtype == "compact_boundary" }); err != nil {
			t.Fatal(err)
		}
		must(t, p.Prompt(ctx, "third"))
		if n := h.API.Count(standin.Main, "[m]"); n != 1 {
			t.Errorf("Count after the compaction: got %d, want 1; %s", n, h.API)
		}
		must(t, p.Prompt(ctx, "again [m]"))
		if n := h.API.Count(standin.Main, "[m]"); n != 2 {
			t.Errorf("Count after the second time: got %d, want 2; %s", n, h.API)
		}
		var side []int
		for _, r := range h.API.Log() {
			if r.Side {
				side = append(side, r.Seq)
			}
		}
		if len(side) != 1 || side[0] != 3 {
			t.Errorf("side calls: got %v, want the third, which asks for the summary; %s", side, h.API)
		}
	})
}

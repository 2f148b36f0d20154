package claude_test

import (
	"testing"
	"time"

	"teambridge/relay/claude"
	"teambridge/relay/claude/claudetest"
)

// generations runs a test against both, side by side.
func generations(t *testing.T, test func(t *testing.T, g claudetest.Generation)) {
	t.Parallel()
	for _, g := range []claudetest.Generation{claudetest.G1, claudetest.G2} {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			test(t, g)
		})
	}
}

// options start the real Claude Code in a home.
func options(t testing.TB, g claudetest.Generation, h *claudetest.Home) claude.Options {
	return claude.Options{
		Command: append(claudetest.Require(t, g), "--dangerously-skip-permissions"),
		Dir:     h.Work, Env: h.Env(),
	}
}

func TestFrameRunsOnce(t *testing.T) {
	generations(t, func(t *testing.T, g claudetest.Generation) {
		h := claudetest.NewHome(t, nil)
		p := start(t, options(t, g, h))
		f := frame(t, "hello [m-1]")
		send(t, p, f)
		got := reaches(t, p, f, claude.Done)
		if got.Result == nil || got.Result.Text != "ACK: hello [m-1]" {
			t.Errorf("result: got %+v, want the model's answer", got.Result)
		}

		send(t, p, f)
		reaches(t, p, f, claude.Known)
		if err := p.End(within(t), claude.Grace{EOF: 30 * time.Second}); err != nil {
			t.Errorf("end: got %v, want exit code 0", err)
		}
		if n := h.API.Count(claudetest.Main, "[m-1]"); n != 1 {
			t.Errorf("given to the model: got %d times, want 1", n)
		}
	})
}

package claude_test

import (
	"context"
	"testing"
	"time"

	"teambridge/relay/claude"
	"teambridge/relay/claude/claudetest"
)

// within bounds one wait of a test.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

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

// start starts a process that is killed with the test.
func start(t testing.TB, o claude.Options) *claude.Process {
	t.Helper()
	p, err := claude.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		if t.Failed() {
			t.Logf("stderr: %s", p.Stderr())
		}
	})
	return p
}

func frame(t testing.TB, text string) claude.Frame {
	t.Helper()
	f, err := claude.NewFrame(claude.Message{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func send(t testing.TB, p *claude.Process, f claude.Frame) {
	t.Helper()
	if err := p.Send(within(t), f); err != nil {
		t.Fatal(err)
	}
}

// until reads events until one satisfies match, and returns it with those before it.
func until(t testing.TB, p *claude.Process, what string, match func(claude.Event) bool) []claude.Event {
	t.Helper()
	var all []claude.Event
	for e, err := range p.Events(within(t)) {
		if err != nil {
			t.Fatalf("waiting for %s: %v; got %s", what, err, lines(all))
		}
		all = append(all, e)
		if match(e) {
			return all
		}
	}
	t.Fatalf("the process ended before %s: %v; got %s", what, p.Wait(within(t)), lines(all))
	return nil
}

func lines(all []claude.Event) string {
	text := ""
	for _, e := range all {
		if len(e.Line) > 300 {
			e.Line = e.Line[:300]
		}
		text += "\n\t" + string(e.Line)
	}
	return text
}

// reaches waits until the frame has come to a state that is not in flight, or to the one wanted.
func reaches(t testing.TB, p *claude.Process, f claude.Frame, want claude.State) claude.Progress {
	t.Helper()
	var last claude.Progress
	all := until(t, p, "frame to be "+want.String(), func(e claude.Event) bool {
		for _, progress := range e.Progress {
			if progress.UUID == f.UUID() {
				last = progress
				return progress.State == want || !progress.State.InFlight()
			}
		}
		return false
	})
	if last.State != want {
		t.Fatalf("frame %s: got state %v, want %v; events: %s", f.UUID(), last.State, want, lines(all))
	}
	return last
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

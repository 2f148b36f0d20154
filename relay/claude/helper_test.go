package claude_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simchild"
	"teambridge/teams/errtest"
)

func TestMain(m *testing.M) {
	simchild.Main()
	os.Exit(killtest.Tests(m))
}

var must = errtest.Must

// within bounds one wait of a test.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// patience is longer than any wait on a busy machine.
const patience = 2 * time.Minute

// sim returns options that start a simulated child. Its State, which is also the root of its transcripts, and its Dir
// are in folders of their own.
func sim(t testing.TB, s simchild.Script) (claude.Options, string) {
	t.Helper()
	if s.State == "" {
		s.State = t.TempDir()
	}
	return claude.Options{
		Command: []string{simchild.Program()}, Dir: t.TempDir(), Env: append(os.Environ(), s.Env(), noRaceSleep),
		Plain: s.Mute, WriteTimeout: patience, AnswerTimeout: patience,
	}, s.State
}

// start starts a process that is killed with the test.
func start(t testing.TB, o claude.Options) *claude.Process {
	t.Helper()
	p, err := claude.Start(t.Context(), o)
	must(t, err)
	t.Cleanup(func() {
		if err := end(t, p, agent.Grace{}); t.Failed() {
			t.Logf("%s: %v", strings.Join(o.Command, " "), err)
		}
	})
	return p
}

// end ends a process, and returns its error.
func end(t testing.TB, p *claude.Process, g agent.Grace) error {
	t.Helper()
	if err := p.End(context.WithoutCancel(t.Context()), g); err != nil {
		t.Error(err)
	}
	return p.Wait(context.WithoutCancel(t.Context()))
}

// noRaceSleep keeps a child that was built with the race detector from waiting a second at its exit.
const noRaceSleep = "GORACE=atexit_sleep_ms=0"

func frame(t testing.TB, text string) agent.Frame {
	t.Helper()
	f, err := claude.NewFrame(uuid.NewString(), text)
	must(t, err)
	return f
}

func send(t testing.TB, p *claude.Process, f agent.Frame) {
	t.Helper()
	must(t, p.Send(within(t), f.Line))
}

// until reads events until one satisfies match, and returns it with those before it.
func until(t testing.TB, p *claude.Process, what string, match func(agent.Event) bool) []agent.Event {
	t.Helper()
	var all []agent.Event
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

func lines(all []agent.Event) string {
	text := ""
	for _, e := range all {
		if len(e.Line) > 300 {
			e.Line = e.Line[:300]
		}
		text += "\n\t" + string(e.Line)
	}
	return text
}

// reaches waits until the frame is in the wanted state, and fails if it ends in another.
func reaches(t testing.TB, p *claude.Process, f agent.Frame, want agent.State) agent.Progress {
	t.Helper()
	var last agent.Progress
	all := until(t, p, "frame to be "+want.String(), func(e agent.Event) bool {
		for _, progress := range e.Progress {
			if progress.UUID == f.UUID {
				last = progress
				return progress.State == want || !progress.State.InFlight()
			}
		}
		return false
	})
	if last.State != want {
		t.Fatalf("frame %s: got state %v, want %v; events: %s", f.UUID, last.State, want, lines(all))
	}
	return last
}

// rest reads events to the end.
func rest(t testing.TB, p *claude.Process) []agent.Event {
	t.Helper()
	var all []agent.Event
	for e, err := range p.Events(within(t)) {
		must(t, err)
		all = append(all, e)
	}
	return all
}

// payloads returns the payloads of one type.
func payloads[T claude.Payload](all []agent.Event) []T {
	var found []T
	for _, e := range all {
		if p, ok := e.Payload.(T); ok {
			found = append(found, p)
		}
	}
	return found
}

// worked checks how often the simulated child has worked on each text.
func worked(t testing.TB, state string, want map[string]int) {
	t.Helper()
	got, err := simchild.Works(state)
	must(t, err)
	for text, n := range want {
		if got[text] != n {
			t.Errorf("worked on %.100q: got %d times, want %d; all: %.1000v", text, got[text], n, got)
		}
	}
}

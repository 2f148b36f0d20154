package claude_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/relaytest/standin"
	"teambridge/relay/wire"
	"teambridge/teams"
)

// became returns the outcomes of tool calls, by title.
func became(list []wire.Envelope) map[string]wire.Outcome {
	titles, all := map[string]string{}, map[string]wire.Outcome{}
	for _, e := range list {
		switch event := e.Event.(type) {
		case *wire.ToolCallStart:
			titles[event.Call] = event.Title
		case *wire.ToolCallEnd:
			all[titles[event.Call]] = event.Outcome
		}
	}
	return all
}

// keptBy returns their outcomes according to a transcript.
func keptBy(t testing.TB, tr claude.Transcript) map[string]wire.Outcome {
	t.Helper()
	var list []wire.Envelope
	for e, err := range tr.Envelopes(within(t), time.Time{}, true) {
		must(t, err)
		list = append(list, e)
	}
	return became(list)
}

// A call that was denied by teambridge, failed, or was cut by the death of the process has that outcome.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	o, state := sim(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Called, Do: simchild.Die}}})
	o.Session, o.Root = uuid.NewString(), state
	o.Permission = &agent.Permission{Reason: agent.NotAllowed, Ask: func(_ context.Context, u agent.Use) agent.Decision {
		return agent.Decision{Allow: u.Tool == "Read", Reason: map[string]string{"Edit": "not today"}[u.Tool]}
	}}
	all := &told{TB: t, known: map[string]bool{}}
	p := start(t, o)
	all.turn(p, frame(t, `CALL:Read {"file_path": "a"}
CALL:Read {"file_path": "b", "fails": true}
CALL:Write {"file_path": "c", "content": "x"}
CALL:Edit {"file_path": "d"}`))
	send(t, p, frame(t, "TOOL:0"))
	all.rest(p)
	want := map[string]wire.Outcome{"read a": wire.OutcomeDone, "read b": wire.OutcomeFailed, "write c": wire.OutcomeDenied, "edit d": wire.OutcomeDenied, "run `sleep`": wire.OutcomeCut}
	if diff := cmp.Diff(want, became(all.all)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, keptBy(t, claude.Transcript{Root: state, Dir: o.Dir, Session: o.Session})); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	for _, e := range all.all {
		if f, ok := e.Event.(*wire.File); ok {
			t.Errorf("a file was written: %+v", f)
		}
	}
}

// TestRealOutcomes: with each version, calls that succeed, fail, or are not run have the right outcome.
func TestRealOutcomes(t *testing.T) {
	some(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, nil)
		o := real(t, v, h)
		o.Command, o.Root = append(standin.Require(t, v), "--permission-mode", "default"), h.Root
		waits := make(chan bool, 2)
		o.Permission = &agent.Permission{Ask: func(ctx context.Context, u agent.Use) agent.Decision {
			switch input := string(u.Input); {
			case strings.Contains(input, "asks"):
				waits <- true
				<-ctx.Done()
			case strings.Contains(input, "never"):
				return agent.Decision{Reason: "not today"}
			}
			return agent.Decision{Allow: true}
		}}
		tr := claude.Transcript{Root: h.Root, Dir: h.Work, Session: o.Session}
		bash := func(command string) string {
			return standin.CallLine("Bash", map[string]any{"command": command, "description": "d"})
		}
		all := &told{TB: t, known: map[string]bool{}}
		p := start(t, o)
		// Each in a turn of its own: in some versions a command that fails cancels those next to it.
		for _, call := range []string{bash("touch done"), bash("touch failed; exit 3"), bash("touch never"), standin.CallLine("NoSuchTool", map[string]any{})} {
			all.turn(p, frame(t, call))
		}
		interrupted := frame(t, bash("touch asks1"))
		send(t, p, interrupted)
		<-waits
		must(t, p.Interrupt(within(t), interrupted.UUID))
		reached := func(e agent.Event) bool {
			for _, g := range e.Progress {
				if g.UUID == interrupted.UUID && !g.State.InFlight() {
					return true
				}
			}
			return false
		}
		all.until(p, interrupted, reached)
		eventually(t, "the interrupt is written down", func() bool { return keptBy(t, tr)["run `touch asks1`"] != "" })
		send(t, p, frame(t, bash("touch asks2")))
		<-waits
		if err := end(t, p, agent.Grace{}); err == nil {
			t.Error("it ended by itself")
		}
		all.rest(p)
		want := map[string]wire.Outcome{
			"run `touch done`": wire.OutcomeDone, "run `touch failed; exit 3`": wire.OutcomeFailed, "run `touch never`": wire.OutcomeDenied,
			"use NoSuchTool": wire.OutcomeFailed, "run `touch asks1`": wire.OutcomeCut, "run `touch asks2`": wire.OutcomeCut,
		}
		if diff := cmp.Diff(want, became(all.all)); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		kept, read := maps.Clone(want), keptBy(t, tr)
		if _, ok := read["run `touch asks2`"]; !ok {
			delete(kept, "run `touch asks2`") // killed before Claude Code had recorded it
		}
		if diff := cmp.Diff(kept, read); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	})
}

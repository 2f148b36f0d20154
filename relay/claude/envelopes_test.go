package claude_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
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

// told collects the envelopes of a conversation, each once.
type told struct {
	testing.TB
	all   []wire.Envelope
	known map[string]bool
}

func (s *told) add(list ...wire.Envelope) {
	for _, e := range list {
		if _, err := e.MarshalJSON(); err != nil {
			s.Errorf("%+v: %v", e, err)
		}
		if !s.known[e.ID] {
			s.all = append(s.all, e)
		}
		s.known[e.ID] = true
	}
}

func (s *told) turn(p *claude.Process, f agent.Frame) {
	s.Helper()
	send(s, p, f)
	s.until(p, f, func(e agent.Event) bool {
		return slices.ContainsFunc(e.Progress, func(g agent.Progress) bool { return g.UUID == f.UUID && !g.State.InFlight() })
	})
}

// until reads events until one matches.
func (s *told) until(p *claude.Process, f agent.Frame, match func(agent.Event) bool) {
	s.Helper()
	for _, e := range until(s, p, "frame "+f.UUID, match) {
		s.add(e.Envelopes...)
	}
}

// rest reads events to the end of the process.
func (s *told) rest(p *claude.Process) {
	s.Helper()
	for _, e := range rest(s, p) {
		s.add(e.Envelopes...)
	}
}

// has waits until an envelope matches.
func has(match func(wire.Event) bool) func(agent.Event) bool {
	return func(e agent.Event) bool {
		return slices.ContainsFunc(e.Envelopes, func(e wire.Envelope) bool { return match(e.Event) })
	}
}

func isCall(e wire.Event) bool { _, ok := e.(*wire.ToolCallStart); return ok }

// paired checks that each turn, tool call and subagent begins once and ends once, and returns how
// each turn ended.
func (s *told) paired() map[string]wire.TurnStatus {
	s.Helper()
	open, ends := map[string]int{}, map[string]wire.TurnStatus{}
	for _, e := range s.all {
		switch ev := e.Event.(type) {
		case *wire.TurnStart:
			open["turn "+*e.Turn]++
		case *wire.TurnEnd:
			open["turn "+*e.Turn]--
			ends[*e.Turn] = ev.Status
		case *wire.ToolCallStart:
			open["call "+ev.Call]++
		case *wire.ToolCallEnd:
			open["call "+ev.Call]--
		case *wire.Start:
			open["subagent "+*e.Subagent]++
		case *wire.Stop:
			open["subagent "+*e.Subagent]--
		}
	}
	for what, n := range open {
		if n != 0 {
			s.Errorf("%s: %+d starts without an end", what, n)
		}
	}
	return ends
}

// streams returns the ids and kinds of the envelopes of the conversation, and of each subagent.
func streams(all []wire.Envelope) map[string][]string {
	found := map[string][]string{}
	for _, e := range all {
		who := ""
		if e.Subagent != nil {
			who = *e.Subagent
		}
		e.Time, e.Usage = 0, nil
		if _, ok := e.Event.(*wire.ToolCallEnd); ok {
			e.ClaudeUUID = nil // when it resumes, it writes a result for a tool that was cut
		}
		line, err := e.MarshalJSON()
		found[who] = append(found[who], fmt.Sprintf("%s %v", line, err))
	}
	return found
}

// TestEnvelopesOverAKill: whenever an agent is killed, its output and its transcript together make one conversation,
// in which each turn begins once and ends once, as it really ended.
func TestEnvelopesOverAKill(t *testing.T) {
	t.Parallel()
	for _, at := range []simchild.Point{simchild.Read, simchild.Stored, simchild.Began, simchild.Echoed, simchild.Called, simchild.Worked, simchild.Finished, simchild.Answered} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			o, state := sim(t, simchild.Script{Faults: []simchild.Fault{{At: at, Do: simchild.Die, Match: "deadly", Times: 1}}})
			o.Session, o.Root = uuid.NewString(), state
			tr := claude.Transcript{Root: state, Dir: o.Dir, Session: o.Session}
			all := &told{TB: t, known: map[string]bool{}}
			p := start(t, o)
			first, f, next := frame(t, "first"), frame(t, "deadly\nTOOL:0"), frame(t, "go on")
			all.turn(p, first)
			send(t, p, f)
			all.rest(p)

			turn, err := tr.Turn(within(t), f.UUID)
			must(t, err)
			want := wire.TurnFailed
			if turn.Finished || !turn.Stored {
				want = wire.TurnCompleted
			}
			o.Resume = true
			p = start(t, o)
			if !turn.Stored {
				all.turn(p, f)
			}
			all.turn(p, next)
			exits0(t, p)
			all.rest(p)

			ends := all.paired()
			if ends[first.UUID] != wire.TurnCompleted || ends[next.UUID] != wire.TurnCompleted || ends[f.UUID] != want {
				t.Errorf("turns ended %v, want that of %s to be %s", ends, f.UUID, want)
			}
			kept := &told{TB: t, known: map[string]bool{}}
			for e, err := range tr.Envelopes(within(t), time.Time{}, true) {
				must(t, err)
				kept.add(e)
			}
			if diff := cmp.Diff(streams(all.all), streams(kept.all)); diff != "" {
				t.Errorf("printed (-) and transcript (+) differ:\n%s", diff)
			}
		})
	}
}

// TestRealEnvelopes: with each version, the output and the transcript of a conversation give the same
// envelopes.
func TestRealEnvelopes(t *testing.T) {
	some(t, func(t *testing.T, v teams.Version) {
		var thinking atomic.Bool
		h := standin.NewHome(t, standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
			if !r.Side && r.Has("[think]") && thinking.CompareAndSwap(false, true) {
				<-ctx.Done()
			}
			a := standin.Script(ctx, r)
			if len(a.Calls) > 0 && !r.Side {
				a.Text = "let me see"
			}
			return a
		}))
		o := real(t, v, h)
		o.Root = h.Root
		tr := claude.Transcript{Root: h.Root, Dir: h.Work, Session: o.Session}
		live := &told{TB: t, known: map[string]bool{}}
		call := func(tool string, input map[string]any) string { return standin.CallLine(tool, input) }
		bash := func(command string) string {
			return call("Bash", map[string]any{"command": command, "description": "d"})
		}
		path := filepath.Join(h.Work, "a.txt")

		p := start(t, o)
		done := []agent.Frame{
			frame(t, "hello"),
			frame(t, bash("echo one")+"\n"+bash("echo two; exit 3")),
			frame(t, call("Write", map[string]any{"file_path": path, "content": "hello\n"})),
			frame(t, "<teammate-message teammate_id=\"bob\">\nhi\n</teammate-message>"),
			frame(t, call("Agent", map[string]any{"description": "look one", "prompt": "do\n" + bash("echo sub1"), "subagent_type": "general-purpose"})+"\n"+
				call("Agent", map[string]any{"description": "look two", "prompt": "do\n" + bash("echo sub2"), "subagent_type": "general-purpose"})),
		}
		for _, f := range done {
			live.turn(p, f)
		}
		// Subagents run in the background. When they have ended, Claude Code begins a turn by itself.
		stops := func() (n int) {
			for _, e := range live.all {
				if _, ok := e.Event.(*wire.Stop); ok {
					n++
				}
			}
			return n
		}
		open := func() bool {
			n := 0
			for _, e := range live.all {
				switch e.Event.(type) {
				case *wire.TurnStart:
					n++
				case *wire.TurnEnd:
					n--
				}
			}
			return n > 0
		}
		for stops() < 2 || open() {
			live.until(p, done[4], func(e agent.Event) bool { return len(e.Envelopes) > 0 })
		}

		for _, text := range []string{"/context", "/compact", "after"} {
			f := frame(t, text)
			live.turn(p, f)
			done = append(done, f)
		}

		stopped := []agent.Frame{frame(t, bash("touch began; tail -f /dev/null")), frame(t, "[think]")}
		for i, f := range stopped {
			send(t, p, f)
			if i == 0 {
				live.until(p, f, has(isCall))
				// So that it has started.
				if _, err := standin.WaitFile(within(t), filepath.Join(h.Work, "began"), func([]byte) bool { return true }); err != nil {
					t.Fatal(err)
				}
			} else if _, err := h.API.Wait(within(t), func(r standin.Request) bool { return r.Has("[think]") }); err != nil {
				t.Fatal(err)
			}
			must(t, p.Interrupt(within(t), f.UUID))
			live.until(p, f, has(func(e wire.Event) bool { _, ok := e.(*wire.TurnEnd); return ok }))
		}
		if _, err := p.SetModel(within(t), "haiku"); err != nil {
			t.Fatal(err)
		}
		killed := frame(t, bash("tail -f /dev/zero > /dev/null"))
		send(t, p, killed)
		live.until(p, killed, has(isCall))
		stored(t, tr, killed, func(turn agent.Turn) bool { return turn.Stop == "tool_use" })
		_ = p.Kill()
		live.rest(p)

		o.Resume = true
		p = start(t, o)
		resumed := frame(t, "go on")
		live.turn(p, resumed)
		stored(t, tr, resumed, func(turn agent.Turn) bool { return turn.Finished })
		exits0(t, p)
		live.rest(p)
		done = append(done, resumed)

		ends := live.paired()
		for status, frames := range map[wire.TurnStatus][]agent.Frame{
			wire.TurnCompleted: done, wire.TurnCancelled: stopped, wire.TurnFailed: {killed},
		} {
			for _, f := range frames {
				if ends[f.UUID] != status {
					t.Errorf("turn of %s: ended %q, want %q", f.Line, ends[f.UUID], status)
				}
			}
		}
		read := func(since time.Time) *told {
			s := &told{TB: t, known: map[string]bool{}}
			for e, err := range tr.Envelopes(within(t), since, true) {
				must(t, err)
				s.add(e)
			}
			return s
		}
		again := read(time.Time{})
		again.paired()
		kept := streams(again.all)
		for who, printed := range streams(live.all) {
			if diff := cmp.Diff(printed, kept[who]); diff != "" {
				t.Errorf("%q: printed (-) and transcript (+) differ:\n%s", who, diff)
			}
		}
		// Reading from a time on leaves out only the beginning.
		last := again.all[len(again.all)-1]
		later := read(time.UnixMilli(int64(last.Time)).Add(time.Minute)).all
		if len(later) == 0 || len(later) >= len(again.all) || later[0].ID != again.all[len(again.all)-len(later)].ID {
			t.Errorf("since the last turn: got %d envelopes, want the last of %d", len(later), len(again.all))
		}
	})
}

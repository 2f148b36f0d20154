package relay

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/mode"
	"teambridge/relay/relaytest/simchild"
)

// worked lists the work of turns, with the permission mode at the end of each.
func (s *station) worked() (list []string) {
	s.t.Helper()
	entries := s.log()
	for _, e := range entries {
		if e.Kind == "work" {
			list = append(list, strings.TrimPrefix(e.Text, "LEAVE\n")+" "+e.Mode)
		}
	}
	return list
}

func plan() mode.Mode { return mode.Mode{PermissionMode: mode.Set("plan")} }

// Claude Code allows a member of a team to leave plan mode. Here the member stays
// in it, whether a message or the command set it, until another message sets
// another mode.
func TestMemberStaysInPlanMode(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"", "--permission-mode=plan"} {
		s := newStation(t, simchild.Script{})
		opts := s.options()
		change(&opts, func(o *claude.Options) { o.Member = claude.Member{Name: "team-lead", Team: "demo"} })
		first := plan()
		if flags != "" {
			change(&opts, func(o *claude.Options) { o.Command, first = append(o.Command, flags), mode.Mode{} })
		}
		r, stop := s.relay(opts)
		for _, in := range []Input{
			{Text: "LEAVE\n[a]", Mode: first},
			{Text: "LEAVE\n[b]"},
			{Text: "[c]", Mode: mode.Mode{PermissionMode: mode.Set("acceptEdits")}},
		} {
			s.prompt(r, in)
		}
		s.settled(3)
		stop()
		if got, want := strings.Join(s.worked(), ", "), "[a] plan, [b] plan, [c] acceptEdits"; got != want {
			t.Errorf("flags %q: worked on %s, want %s", flags, got, want)
		}
	}
}

// An agent that switches to more permissions than its message has is stopped before
// it uses them. The message has failed, and is not sent again; the next one runs in
// the right mode.
func TestWidenedPermissions(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{
		{At: simchild.Echoed, Do: simchild.Widen, Match: "[a]"},
		{At: simchild.Echoed, Do: simchild.Hold, Match: "[a]", Name: "never"},
	}})
	r, stop := s.relay(s.options())
	for _, in := range []Input{{Text: "[a]", Mode: plan()}, {Text: "[b]"}} {
		s.prompt(r, in)
	}
	all := s.settled(2)
	stop()
	if d := all[0]; d.State != ledger.Failed || !strings.Contains(d.Reason, `permission mode "bypassPermissions", wider than "plan"`) {
		t.Errorf("[a] is %s (%s), want failed for its permissions", d.State, d.Reason)
	}
	if d := all[1]; d.State != ledger.Done {
		t.Errorf("[b] is %s (%s), want done", d.State, d.Reason)
	}
	if got := strings.Join(s.worked(), ", "); got != "[b] plan" {
		t.Errorf("worked on %s, want [b] alone, in plan mode", got)
	}
	widened := func(err error) bool { _, ok := errors.AsType[*agent.WidenedError](err); return ok }
	if len(s.warnings(widened)) == 0 {
		t.Error("nobody was told why the agent was stopped")
	}
}

// An agent that starts with more permissions than it should have, as some versions of
// Claude Code do without a flag, is stopped before it does anything.
func TestAgentThatBeginsWide(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Mode: "auto", Faults: []simchild.Fault{
		{At: simchild.Echoed, Do: simchild.Hold, Name: "never"},
	}})
	r, stop := s.relay(s.options())
	s.prompt(r, Input{Text: "[a]"})
	d := s.settled(1)[0]
	stop()
	if d.State != ledger.Failed || !strings.Contains(d.Reason, `permission mode "auto", wider than "default"`) {
		t.Errorf("[a] is %s (%s), want failed for its permissions", d.State, d.Reason)
	}
	if got := s.worked(); len(got) > 0 {
		t.Errorf("worked on %q", got)
	}
}

// A person may let an agent that asks leave plan mode, also a member of a team. Later
// messages run in plan mode again. If the person denies it, the agent stays in plan
// mode. An agent with settings of its own cannot ask.
func TestPersonEndsPlanMode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*claude.Options)
		allow  bool
		asked  int
		want   string
	}{
		{"without flags", func(o *claude.Options) { o.Plain = true }, true, 1, "[a] default, [b] plan"},
		{"a member", func(*claude.Options) {}, true, 1, "[a] default, [b] plan"},
		{"a member, denied", func(*claude.Options) {}, false, 1, "[a] plan, [b] plan"},
		{"a member with settings", func(o *claude.Options) { o.Command = append(o.Command, "--settings", "{}") }, true, 0, "[a] plan, [b] plan"},
	} {
		s := newStation(t, simchild.Script{})
		opts := s.options()
		asked := 0
		change(&opts, func(o *claude.Options) {
			o.Member = claude.Member{Name: "team-lead", Team: "demo"}
			o.Permission = &agent.Permission{Allow: []string{"*"}, Ask: func(_ context.Context, u agent.Use) agent.Decision {
				asked++
				return agent.Decision{Allow: test.allow && u.Tool == "ExitPlanMode" && u.Mode == "plan"}
			}}
			test.change(o)
		})
		r, stop := s.relay(opts)
		for _, in := range []Input{{Text: "LEAVE\n[a]", Mode: plan()}, {Text: "[b]"}} {
			s.prompt(r, in)
		}
		s.settled(2)
		stop()
		if got := strings.Join(s.worked(), ", "); got != test.want || asked != test.asked {
			t.Errorf("%s: worked on %s, want %s; asked %d times, want %d", test.name, got, test.want, asked, test.asked)
		}
	}
}

// A change of the mode that needs a new process waits for the end of a turn that the agent has begun by itself.
func TestModeWaitsForABackgroundTurn(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Worked, Do: simchild.Task, Match: "[m-1]", Name: "task"}}})
	opts := s.options()
	var inits, tries atomic.Int32
	opts.Events = func(e agent.Event) {
		if _, ok := e.Payload.(claude.Init); ok {
			inits.Add(1)
		}
	}
	r := s.newRelay(opts)
	r.grace = agent.Grace{EOF: time.Millisecond, Term: time.Millisecond}
	r.at = func(now moment) {
		if now == queued {
			tries.Add(1)
		}
	}
	s.send("[m-1]")
	stop := s.run(r)
	s.settled(1)
	s.let("task")
	s.await("the background turn has begun", func() bool { return inits.Load() >= 2 })
	s.prompt(r, Input{Text: "[m-2]", Mode: plan()})
	s.await("the relay waits", func() bool {
		r.poke()
		return tries.Load() >= 4 || s.logged("start") > 1
	})
	if n := s.logged("start"); n != 1 {
		t.Error("the agent was ended in its turn")
	}
	s.let("task.end")
	s.settled(2)
	stop()
	s.once("[m-1]", "[m-2]")
	s.undisturbed()
}

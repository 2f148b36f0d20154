package claude_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// The tests here run the real Claude Code, in several versions, against a stand-in for the model API.

// versions runs a test against each, side by side.
func versions(t *testing.T, test func(t *testing.T, v teams.Version)) {
	t.Parallel()
	standin.ForEach(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		test(t, v)
	})
}

// some runs a test against one of them, or those that are selected.
func some(t *testing.T, test func(t *testing.T, v teams.Version)) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		test(t, v)
	})
}

// real are options that start Claude Code in a home, with a session of its own.
func real(t testing.TB, v teams.Version, h *standin.Home) claude.Options {
	t.Helper()
	return claude.Options{
		Command: append(standin.Require(t, v), "--dangerously-skip-permissions"),
		Dir:     h.Work, Env: h.Env(), Session: uuid.NewString(), WriteTimeout: patience, AnswerTimeout: patience,
	}
}

// slowly makes the model think for a while about the result of a tool: a turn that was echoed and goes on.
func slowly(ctx context.Context, r standin.Request) standin.Answer {
	a := standin.Script(ctx, r)
	switch {
	case r.Side:
	case strings.Contains(r.Text(), "FAIL"):
		return standin.Answer{Status: 400, Text: "simulated"}
	case len(r.Results) > 0:
		a.Delay = time.Hour // the test kills it before
	}
	return a
}

func exits0(t testing.TB, p *claude.Process) {
	t.Helper()
	if err := end(t, p, agent.Grace{EOF: patience, Term: time.Second}); err != nil {
		t.Errorf("end: got %v, want exit code 0", err)
	}
}

// stored waits until the transcript has the turn: it is written a little late.
func stored(t testing.TB, tr claude.Transcript, f agent.Frame, is func(agent.Turn) bool) agent.Turn {
	t.Helper()
	var turn agent.Turn
	eventually(t, "the transcript tells so", func() bool {
		var err error
		if turn, err = tr.Turn(within(t), f.UUID); err != nil {
			t.Fatal(err)
		}
		return is(turn)
	})
	return turn
}

// TestKilledBeforeTheEcho: the frame is run when it is sent again.
func TestKilledBeforeTheEcho(t *testing.T) {
	versions(t, func(t *testing.T, v teams.Version) {
		answer := make(chan struct{})
		h := standin.NewHome(t, standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
			if strings.Contains(r.Text(), "[deadly]") {
				select {
				case <-answer:
				case <-ctx.Done():
				}
			}
			return standin.Script(ctx, r)
		}))
		o := real(t, v, h)
		tr := claude.Transcript{Root: h.Root, Dir: h.Work, Session: o.Session}
		p := start(t, o)
		first, f := frame(t, "first"), frame(t, "hello [deadly]")
		send(t, p, first)
		reaches(t, p, first, agent.Done)
		stored(t, tr, first, func(turn agent.Turn) bool { return turn.Finished })
		send(t, p, f)
		if _, err := h.API.Wait(within(t), func(r standin.Request) bool { return r.Has("[deadly]") }); err != nil {
			t.Fatal(err)
		}
		_ = p.Kill()
		for _, e := range rest(t, p) {
			for _, progress := range e.Progress {
				if progress.UUID == f.UUID && progress.State != agent.Accepted {
					t.Errorf("before the kill: got %v", progress.State)
				}
			}
		}
		close(answer)

		o.Resume = true
		p = start(t, o)
		send(t, p, f)
		reaches(t, p, f, agent.Done)
		stored(t, tr, f, func(turn agent.Turn) bool { return turn.Finished })
		exits0(t, p)
	})
}

// TestKilledAfterTheEcho: the frame is known, its turn was cut, and neither goes on.
func TestKilledAfterTheEcho(t *testing.T) {
	some(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, standin.StartAPI(t, slowly))
		o := real(t, v, h)
		tr := claude.Transcript{Root: h.Root, Dir: h.Work, Session: o.Session}
		p := start(t, o)
		f := frame(t, "[deadly]\n"+standin.CallLine("Bash", map[string]string{"command": "echo hi", "description": "d"}))
		send(t, p, f)
		if _, err := h.API.Wait(within(t), func(r standin.Request) bool { return len(r.Results) > 0 }); err != nil {
			t.Fatal(err)
		}
		stored(t, tr, f, func(turn agent.Turn) bool { return turn.Stop == "tool_use" })
		_ = p.Kill()
		reaches(t, p, f, agent.Accepted)

		o.Resume = true
		p = start(t, o)
		send(t, p, f)
		reaches(t, p, f, agent.Known)
		if turn, err := tr.Turn(within(t), f.UUID); err != nil || !turn.Stored || turn.Finished || turn.Interrupted || turn.Failed {
			t.Errorf("transcript: got %+v, %v, want cut", turn, err)
		}
		nudge := frame(t, "go on")
		send(t, p, nudge)
		reaches(t, p, nudge, agent.Done)
		stored(t, tr, nudge, func(turn agent.Turn) bool { return turn.Finished })
		exits0(t, p)
		// The nudge's turn finished, but not the frame's own.
		if turn, err := tr.Turn(within(t), f.UUID); err != nil || !turn.Stored || turn.Finished || turn.Interrupted || turn.Failed {
			t.Errorf("transcript behind the nudge: got %+v, %v, want cut", turn, err)
		}
		if n := h.API.Count(standin.Main, "[deadly]"); n != 1 {
			t.Errorf("given to the model %d times, want 1", n)
		}
	})
}

func TestRealInterruptAndSettings(t *testing.T) {
	some(t, func(t *testing.T, v teams.Version) {
		var once atomic.Bool // the interrupted text is among the newest texts of the next call, too
		h := standin.NewHome(t, standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
			if r.Has("long") && once.CompareAndSwap(false, true) {
				<-ctx.Done()
			}
			return standin.Script(ctx, r)
		}))
		o := real(t, v, h)
		tr := claude.Transcript{Root: h.Root, Dir: h.Work, Session: o.Session}
		p := start(t, o)
		pid := p.ID().PID
		f := frame(t, "long")
		send(t, p, f)
		if _, err := h.API.Wait(within(t), func(r standin.Request) bool { return r.Has("long") }); err != nil {
			t.Fatal(err)
		}
		must(t, p.Interrupt(within(t), f.UUID))
		reaches(t, p, f, agent.Cancelled)
		stored(t, tr, f, func(turn agent.Turn) bool {
			return turn.Interrupted && !turn.Stored || turn.Finished || turn.Interrupted || turn.Failed
		})
		if err := p.Interrupt(within(t), f.UUID); !errors.Is(err, agent.ErrNotInFlight) {
			t.Errorf("interrupt of what is over: got %v, want ErrNotInFlight", err)
		}

		name, err := p.SetModel(within(t), "haiku")
		if err != nil || (name != "") != (v.Compare(teams.Version{Major: 2, Minor: 1, Patch: 310}) >= 0) {
			t.Errorf("set model: got %q, %v", name, err)
		}
		if err := p.SetPermissionMode(within(t), "plan"); err != nil {
			t.Errorf("set permission mode: %v", err)
		}
		if err := p.SetPermissionMode(within(t), "no such mode"); !errors.Is(err, agent.ErrRefused) {
			t.Errorf("a mode that there is not: got %v, want a refusal", err)
		}
		f = frame(t, "hello")
		send(t, p, f)
		all := until(t, p, "init", func(e agent.Event) bool { _, ok := e.Payload.(claude.Init); return ok })
		got := payloads[claude.Init](all)[0]
		if !strings.Contains(got.Model, "haiku") || got.PermissionMode != "plan" || got.Session != o.Session || got.Version != v.String() {
			t.Errorf("init: got %+v, want haiku and plan in the same session", got)
		}
		reaches(t, p, f, agent.Done)
		if p.ID().PID != pid {
			t.Error("it is another process")
		}
		exits0(t, p)
	})
}

func TestRealCommandsAndFailures(t *testing.T) {
	some(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, standin.StartAPI(t, slowly))
		o := real(t, v, h)
		tr := claude.Transcript{Root: h.Root, Dir: h.Work, Session: o.Session}
		p := start(t, o)
		first, compact, next, failing := frame(t, "hello [m-1]"), frame(t, "/compact"), frame(t, "again"), frame(t, "FAIL")
		for _, f := range []agent.Frame{first, compact, next} {
			send(t, p, f)
			reaches(t, p, f, agent.Done)
		}
		send(t, p, first) // known through the compaction
		reaches(t, p, first, agent.Known)
		send(t, p, failing)
		reaches(t, p, failing, agent.Failed)
		stored(t, tr, failing, func(turn agent.Turn) bool { return turn.Failed })
		for _, f := range []agent.Frame{first, next} {
			if turn, err := tr.Turn(within(t), f.UUID); err != nil || !turn.Finished {
				t.Errorf("transcript: got %+v, %v, want finished", turn, err)
			}
		}
		var exit *claude.ExitError
		if err := end(t, p, agent.Grace{EOF: patience}); !errors.As(err, &exit) || exit.Code != 1 {
			t.Errorf("end behind a failed turn: got %v, want exit code 1", err)
		}
	})
}

func TestRealQuestions(t *testing.T) {
	some(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, nil)
		o := real(t, v, h)
		o.Command = standin.Require(t, v)
		asked := make(chan agent.Use, 2)
		o.Permission = &agent.Permission{Ask: func(_ context.Context, u agent.Use) agent.Decision {
			asked <- u
			return agent.Decision{Allow: strings.Contains(string(u.Input), "allowed"), Reason: "not that file"}
		}}
		p := start(t, o)
		for _, name := range []string{"allowed", "refused"} {
			f := frame(t, standin.CallLine("Bash", map[string]string{"command": "touch " + name, "description": "d"}))
			send(t, p, f)
			reaches(t, p, f, agent.Done)
			select { // the turn is over
			case u := <-asked:
				if u.Tool != "Bash" || u.ID == "" {
					t.Errorf("asked about %+v, want Bash", u)
				}
			default:
				t.Errorf("%s: nothing was asked", name)
			}
			if _, err := os.Stat(filepath.Join(h.Work, name)); (err == nil) != (name == "allowed") {
				t.Errorf("file %s: got %v", name, err)
			}
		}
		if _, err := h.API.Wait(within(t), func(r standin.Request) bool {
			return len(r.Results) > 0 && strings.Contains(r.Results[0], "not that file")
		}); err != nil {
			t.Error("the agent was not told why: ", err)
		}
		exits0(t, p)
	})
}

func TestRealSessions(t *testing.T) {
	some(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, nil)
		// A name that no rule of thumb gets right, and so long that it is cut.
		h.Work = filepath.Join(h.Dir, "a_b.c d+é漢😀-X", strings.Repeat("long_dir.", 20))
		must(t, os.MkdirAll(h.Work, 0o700))
		o := real(t, v, h)
		tr := claude.Transcript{Root: h.Root, Dir: h.Work, Session: o.Session}
		if there, err := tr.Exists(); there || err != nil {
			t.Errorf("before anything: got %t, %v", there, err)
		}
		unknown := o
		unknown.Resume = true
		if err := start(t, unknown).Wait(within(t)); !errors.Is(err, claude.ErrSessionUnknown) {
			t.Errorf("resume of nothing: got %v, want ErrSessionUnknown", err)
		}
		p := start(t, o)
		f := frame(t, "hello")
		send(t, p, f)
		reaches(t, p, f, agent.Done)
		exits0(t, p)
		path, err := tr.Path()
		if err != nil || filepath.Base(filepath.Dir(path)) != transcript.Slug(h.Work) {
			t.Errorf("path: got %s, %v, want it under %s", path, err, transcript.Slug(h.Work))
		}
		if err := start(t, o).Wait(within(t)); !errors.Is(err, claude.ErrSessionTaken) {
			t.Errorf("the same session anew: got %v, want ErrSessionTaken", err)
		}
	})
}

// TestMemberOfATeam: the flags make a headless agent a teammate.
func TestMemberOfATeam(t *testing.T) {
	some(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, nil)
		team := filepath.Join(h.Root, "teams", "t1")
		must(t, os.MkdirAll(filepath.Join(team, "inboxes"), 0o700))
		config, err := json.Marshal(map[string]any{"name": "t1", "createdAt": 1, "leadAgentId": "team-lead@t1", "leadSessionId": uuid.NewString(),
			"members": []any{
				map[string]any{"agentId": "team-lead@t1", "name": "team-lead", "joinedAt": 1, "tmuxPaneId": "", "cwd": h.Work, "subscriptions": []string{}},
				map[string]any{"agentId": "bob@t1", "name": "bob", "joinedAt": 1, "tmuxPaneId": "", "cwd": h.Work, "subscriptions": []string{}},
			}})
		must(t, err)
		must(t, os.WriteFile(filepath.Join(team, "config.json"), config, 0o600))
		o := real(t, v, h)
		o.Member = claude.Member{Name: "bob", Team: "t1"}
		p := start(t, o)
		f := frame(t, standin.CallLine("SendMessage", map[string]string{"to": "team-lead", "message": "from bob", "summary": "s"}))
		send(t, p, f)
		reaches(t, p, f, agent.Done)
		data, err := os.ReadFile(filepath.Join(team, "inboxes", "team-lead.json"))
		if err != nil || !strings.Contains(string(data), `"from": "bob"`) {
			t.Errorf("inbox of the lead: got %s, %v, want a row from bob", data, err)
		}
		exits0(t, p)
	})
}

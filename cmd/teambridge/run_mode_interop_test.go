package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/claude/claudetest"
)

// A message can change how the agent works: model and permission mode in the
// process that runs, the system prompt by another one on the same session. Order
// is kept, and each message reaches an agent that works as it says.
func TestRealModeByMessage(t *testing.T) {
	eachGeneration(t, func(t *testing.T, g claudetest.Generation) {
		h := newHeadless(t, g, nil)
		ctx := deadline(t, time.Minute)
		h.start()
		h.up(ctx)
		l := h.ledger()
		h.typing(
			"<m-1>",
			`{"text": "<m-2>", "mode": {"model": "haiku"}}`,
			`{"text": "<m-3>", "mode": {"permissionMode": "plan"}}`,
			`{"text": "<m-4>", "mode": {"customSystemPrompt": "You are a test."}}`,
		)
		h.claimed(ctx, l, 4)
		h.send("<m-5>")
		all := h.settled(ctx, l, 5)

		asked := slices.DeleteFunc(h.asked(), func(r claudetest.Request) bool { return !r.Has("<m-") })
		if len(asked) != 5 {
			t.Fatalf("the model was asked %d times, want 5\n%s", len(asked), h)
		}
		var pids []int
		for i, r := range asked {
			m := []string{"<m-1>", "<m-2>", "<m-3>", "<m-4>", "<m-5>"}[i]
			haiku, plan, test := strings.Contains(r.Model, "haiku"), strings.Contains(strings.ToLower(strings.Join(r.Uncut, "\n")), "plan mode"), strings.Contains(r.System, "You are a test.")
			if !r.Has(m) || haiku != (i >= 1) || test != (i >= 3) || i == 2 && !plan || i < 2 && plan {
				t.Errorf("call %d: %q, model %s, plan mode %t, system prompt %.80q", i+1, r.Texts, r.Model, plan, r.System)
			}
			at := slices.IndexFunc(all, func(d ledger.Delivery) bool { return strings.Contains(string(d.Raw), m) })
			if d := all[at]; d.State != ledger.Done {
				t.Errorf("%s: %s (%s), want done", m, d.State, d.Reason)
			}
			s := h.wait(ctx, "at work on it", func(s saying) bool { return s.Status == "working" && s.InFlight == all[at].Frame })
			pids = append(pids, s.PID)
		}
		if pids[1] != pids[0] || pids[2] != pids[0] || pids[3] == pids[0] || pids[4] != pids[3] {
			t.Errorf("processes %v: model and permission mode change in the one that runs, the system prompt in another", pids)
		}
		sessions := map[string]bool{}
		for _, s := range h.sayings() {
			if s.Session != "" {
				sessions[s.Session] = true
			}
		}
		if len(sessions) != 1 {
			t.Errorf("sessions %v, want one", sessions)
		}
		if status := h.finish(ctx); status != 0 {
			t.Errorf("run ended with %d\n%s", status, h)
		}
	})
}

// A person's commands are alone in their frames, and nothing else is lost: also
// if one makes a new session, which is gone on with after a kill of both, and if
// an agent does not know one.
func TestRealCommandsOfAPerson(t *testing.T) {
	eachGeneration(t, func(t *testing.T, g claudetest.Generation) {
		h := newHeadless(t, g, nil)
		ctx := deadline(t, time.Minute)
		h.start()
		first := h.up(ctx).Session
		l := h.ledger()
		h.typing("<m-1>", "/compact", "<m-2>", "/clear", "<m-3>")
		h.claimed(ctx, l, 5)
		h.send("<m-4>", "<m-5>")
		h.settled(ctx, l, 7)
		session, _ := h.agent(l)
		if (session.ID == first) != (g == claudetest.G1) {
			t.Errorf("session %s, at first %s", session.ID, first)
		}
		h.kill()
		h.killAgent(ctx, l)
		h.start()
		h.send("<m-6>")
		all := h.settled(ctx, l, 8)
		if status := h.finish(ctx); status != 0 {
			t.Errorf("run ended with %d\n%s", status, h)
		}
		frames := map[string]int{}
		for _, d := range all {
			frames[d.Frame]++
		}
		for _, d := range all {
			if d.State != ledger.Done {
				t.Errorf("%s: %s (%s), want done", d.Raw, d.State, d.Reason)
			}
			if d.Person && frames[d.Frame] != 1 {
				t.Errorf("%s is in one frame with %d others", d.Raw, frames[d.Frame]-1)
			}
		}
		for _, m := range []string{"<m-1>", "<m-2>", "<m-3>", "<m-4>", "<m-5>", "<m-6>"} {
			if c := h.home.API.Count(claudetest.Any, m); c != 1 {
				t.Errorf("%s was given %d times, want once", m, c)
			}
			for _, r := range h.asked() {
				late := m == "<m-3>" || m == "<m-4>" || m == "<m-5>" || m == "<m-6>"
				if want := map[bool]string{false: first, true: session.ID}[late]; r.Has(m) && r.Session != want {
					t.Errorf("%s was said in session %s, want %s", m, r.Session, want)
				}
			}
		}
		if !slices.ContainsFunc(h.home.API.Log(), func(r claudetest.Request) bool { return r.Side }) {
			t.Error("nothing was compacted")
		}
		unknown := slices.ContainsFunc(h.sayings(), func(s saying) bool { return strings.Contains(s.Text, "Unknown skill") })
		if unknown != (g == claudetest.G1) {
			t.Errorf("a command that is not known: %t", unknown)
		}
	})
}

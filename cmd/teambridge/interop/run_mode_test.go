package interop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// A message can change how the agent works: its model in the process that runs,
// plan mode, tools and system prompt by another one on the same session. Order
// is kept, and each message reaches an agent that works as it says.
func TestRealModeByMessage(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		h := newHeadless(t, v, nil)
		ctx := deadline(t, 3*time.Minute)
		h.start()
		h.up(ctx)
		l := h.ledger()
		const other = "opus" // than that of the command
		h.typing(
			"<m-1>",
			`{"text": "<m-2>", "mode": {"model": "`+other+`"}}`,
			`{"text": "<m-3>", "mode": {"permissionMode": "plan"}}`,
			`{"text": "<m-4>", "mode": {"disallowedTools": ["Edit"]}}`,
			`{"text": "<m-5>", "mode": {"customSystemPrompt": "You are a test."}}`,
		)
		h.claimed(ctx, l, 5)
		h.send("<m-6>")
		all := h.settled(ctx, l, 6)
		if status := h.finish(ctx); status != 0 {
			t.Errorf("run ended with %d\n%s", status, h)
		}
		asked := slices.DeleteFunc(h.asked(), func(r standin.Request) bool { return !r.Has("<m-") })
		if len(asked) != 6 {
			t.Fatalf("the model was asked %d times, want 6\n%s", len(asked), h)
		}
		session, _ := h.agent(l)
		var pids []int
		for i, r := range asked {
			m := []string{"<m-1>", "<m-2>", "<m-3>", "<m-4>", "<m-5>", "<m-6>"}[i]
			if !r.Has(m) || strings.Contains(r.Model, other) != (i >= 1) || strings.Contains(r.System, "You are a test.") != (i >= 4) ||
				slices.Contains(r.Tools, "Edit") != (i < 3) {
				t.Errorf("call %d: %q, model %s, tools %q, system prompt %.300q", i+1, r.Texts, r.Model, r.Tools, r.System)
			}
			at := slices.IndexFunc(all, func(d ledger.Delivery) bool { return strings.Contains(string(d.Raw), m) })
			if d := all[at]; d.State != ledger.Done {
				t.Errorf("%s: %s (%s), want done", m, d.State, d.Reason)
			}
			if mode, want := permissionModeOf(t, h, all[at].Frame), map[bool]string{false: "bypassPermissions", true: "plan"}[i >= 2]; mode != want {
				t.Errorf("%s was said in permission mode %s, want %s", m, mode, want)
			}
			// Also where the agent was ended at once after it: at the end of its stdin it writes what is left.
			if turn, err := h.transcript(session.ID).Turn(ctx, all[at].Frame); err != nil || !turn.Finished {
				t.Errorf("%s is not written down as finished: %+v, %v", m, turn, err)
			}
			s := h.wait(ctx, "at work on it", func(s saying) bool { return s.Status == "working" && s.InFlight == all[at].Frame })
			pids = append(pids, s.PID)
		}
		if pids[1] != pids[0] || pids[2] == pids[0] || pids[3] == pids[2] || pids[4] == pids[3] || pids[5] != pids[4] {
			t.Errorf("processes %v: the model changes in the one that runs; plan mode, tools and system prompt in another", pids)
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
	})
}

// The bridge is killed, alone and with its agent, after a message changed the mode:
// between two turns, and with a message in flight. What follows is said in the mode
// that it was sent in, as the agent itself says at the beginning of each turn; null
// is the mode of the command.
func TestRealModeOverAKill(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		h := newHeadless(t, v, (&standin.Thinker{}).Respond)
		ctx := deadline(t, 4*time.Minute)
		h.start("--output", "raw")
		l := h.ledger()
		const other = "opus" // than that of the command
		said := 0
		settled := func() {
			t.Helper()
			said++
			h.settled(ctx, l, said)
		}
		inFlight := func() {
			t.Helper()
			said++
			h.counted(ctx, l, 1, "been written", func(s ledger.DeliveryState) bool { return s == ledger.FrameWritten || s == ledger.Accepted })
		}
		h.typing(`{"text": "<m-1>", "mode": {"permissionMode": "plan", "model": "` + other + `"}}`)
		settled()
		h.kill() // the agent ends by itself
		h.start("--output", "raw")
		h.send("<m-2>")
		settled()
		h.typing("<m-3>")
		inFlight()
		h.kill()
		h.killAgent(ctx, l)
		h.start("--output", "raw")
		h.settled(ctx, l, said)
		h.send("<m-4>")
		settled()
		h.typing(`{"text": "<m-5>", "mode": {"permissionMode": null, "model": null}}`)
		settled()
		h.kill()
		h.start("--output", "raw")
		h.send("<m-6>")
		settled()
		h.typing(`{"text": "<m-7>", "mode": {"permissionMode": "plan"}}`)
		settled()
		h.send("<m-8>")
		inFlight()
		h.kill()
		h.start("--output", "raw")
		h.settled(ctx, l, said)
		h.send("<m-9>")
		settled()
		all := h.deliveries(l)
		if status := h.finish(ctx); status != 0 {
			t.Errorf("run ended with %d\n%s", status, h)
		}
		usual := func(n int) bool { return n == 5 || n == 6 }
		for n := 1; n <= 9; n++ {
			m := fmt.Sprintf("<m-%d>", n)
			at := slices.IndexFunc(all, func(d ledger.Delivery) bool { return strings.Contains(string(d.Raw), m) })
			if at < 0 {
				t.Fatalf("%s is not in the ledger\n%s", m, h)
			}
			if d := all[at]; d.State != ledger.Done {
				t.Errorf("%s: %s (%s), want done", m, d.State, d.Reason)
			}
			want := map[bool]string{false: "plan", true: "bypassPermissions"}[usual(n)]
			if mode := permissionModeOf(t, h, all[at].Frame); mode != want {
				t.Errorf("%s was taken in permission mode %s, want %s", m, mode, want)
			}
		}
		for _, r := range h.asked() {
			for n := 1; n <= 9; n++ {
				if m := fmt.Sprintf("<m-%d>", n); r.Has(m) && strings.Contains(r.Model, other) != (n < 5) {
					t.Errorf("%s was given to the model %s", m, r.Model)
				}
			}
		}
		// Runs 1 to 5 of the bridge, by the turns that it saw begin.
		for i, want := range []string{"plan", "plan", "plan bypassPermissions", "bypassPermissions plan", "plan"} {
			var got []string
			for _, s := range h.sayings() {
				if s.Run == i+1 && s.Subtype == "init" && (len(got) == 0 || got[len(got)-1] != s.PermissionMode) {
					got = append(got, s.PermissionMode)
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("run %d: turns began in the permission modes %q, want %s", i+1, got, want)
			}
		}
	})
}

// permissionMode is that in which the agent took a frame, by its transcript.
func permissionModeOf(t *testing.T, h *headless, frame string) string {
	t.Helper()
	session, _ := h.agent(h.ledger())
	path, err := h.transcript(session.ID).Path()
	if err != nil {
		t.Fatal(err)
	}
	mode := ""
	_, err = standin.WaitFile(deadline(t, time.Minute), path, func(data []byte) bool {
		for line := range strings.Lines(string(data)) {
			var record struct{ UUID, PermissionMode string }
			if json.Unmarshal([]byte(line), &record) == nil && record.UUID == frame {
				mode = record.PermissionMode
				return true
			}
		}
		return false // some versions write it after the end of the turn
	})
	if err != nil {
		t.Fatalf("the transcript has no frame %s: %v", frame, err)
	}
	return mode
}

// A person's commands are alone in their frames, and nothing else is lost: also
// if one makes a new session, which is gone on with after a kill of both, and if
// an agent does not know one.
func TestRealCommandsOfAPerson(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		h := newHeadless(t, v, nil)
		ctx := deadline(t, 3*time.Minute)
		h.start()
		first := h.up(ctx).Session
		l := h.ledger()
		// Some versions compact no conversation of a single turn.
		h.typing("<m-0>", "<m-1>", "/compact", "<m-2>", "/clear", "<m-3>")
		h.claimed(ctx, l, 6)
		h.send("<m-4>", "<m-5>")
		h.settled(ctx, l, 8)
		session, _ := h.agent(l)
		if session.ID == first {
			t.Errorf("session %s, at first %s", session.ID, first)
		}
		h.kill()
		h.killAgent(ctx, l)
		h.start()
		h.send("<m-6>")
		all := h.settled(ctx, l, 9)
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
			if c := h.home.API.Count(standin.Any, m); c != 1 {
				t.Errorf("%s was given %d times, want once", m, c)
			}
			for _, r := range h.asked() {
				late := m == "<m-3>" || m == "<m-4>" || m == "<m-5>" || m == "<m-6>"
				if want := map[bool]string{false: first, true: session.ID}[late]; r.Has(m) && r.Session != want {
					t.Errorf("%s was said in session %s, want %s", m, r.Session, want)
				}
			}
		}
		if !slices.ContainsFunc(h.home.API.Log(), func(r standin.Request) bool { return r.Side }) {
			t.Error("nothing was compacted")
		}
		unknown := slices.ContainsFunc(h.sayings(), func(s saying) bool {
			return strings.Contains(s.Text, "Unknown skill") || strings.Contains(s.Text, "isn't available")
		})
		if unknown {
			t.Error("a command is not known")
		}
	})
}

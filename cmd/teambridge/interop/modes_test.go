package interop

import (
	"slices"
	"strings"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// work describes how the agent works on a message.
type work struct {
	mark, mode           string // the permission mode
	opus, noEdit, prompt bool   // its model is opus, it has no tool Edit, its system prompt is the test's
}

// worked checks that the model was called once for each message, in this order, by an agent in this mode. It returns
// the frames.
func (h *headless) worked(want []work) (frames []string) {
	h.t.Helper()
	asked := slices.DeleteFunc(h.asked(), func(r standin.Request) bool { return !r.Has("<m-") })
	if len(asked) != len(want) {
		h.t.Fatalf("the model was asked %d times, want %d\n%s", len(asked), len(want), h)
	}
	for i, w := range want {
		r := asked[i]
		got := work{w.mark, w.mode, strings.Contains(r.Model, "opus"), !slices.Contains(r.Tools, "Edit"), strings.Contains(r.System, "You are a test.")}
		if !r.Has(w.mark) || got != w {
			h.t.Errorf("call %d, want %+v: %q, model %s, tools %q, system prompt %.300q", i+1, w, r.Texts, r.Model, r.Tools, r.System)
		}
		d := h.with(w.mark)
		h.doneIn(w.mode, d)
		frames = append(frames, d.Frame)
	}
	return frames
}

// with returns the delivery with a mark.
func (h *headless) with(mark string) ledger.Delivery {
	h.t.Helper()
	all := h.deliveries()
	at := slices.IndexFunc(all, func(d ledger.Delivery) bool { return strings.Contains(string(d.Raw), mark) })
	if at < 0 {
		h.t.Fatalf("%s is not in the ledger\n%s", mark, h)
	}
	return all[at]
}

// oneSession checks that the agent has had one session all the time.
func (h *headless) oneSession() {
	h.t.Helper()
	sessions := map[string]bool{}
	for _, s := range h.sayings() {
		if s.Session != "" {
			sessions[s.Session] = true
		}
	}
	if len(sessions) != 1 {
		h.t.Errorf("sessions %v, want one", sessions)
	}
}

// Payloads of the session protocol reach the real agent once each, in the mode of their meta: model, permission mode
// (by the name of the front end), tools and system prompt. An absent value stays, and null is the value of the
// command. A payload of the form that is dropped, or one that is sent again after a kill, has no effect. The session
// stays the same.
func TestRealPayloads(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		h := newHeadless(t, v, nil)
		flags := []string{"--input", "wire", "--permission-mode-map", "read-only=plan,yolo=bypassPermissions"}
		h.start(flags...)
		h.up()
		payload := func(m, meta string) string {
			return `{"role":"user","content":{"type":"text","text":"<` + m + `>"},"localKey":"` + m + `","meta":{"sentFrom":"web"` + meta + `}}`
		}
		lines := []string{
			payload("m-1", ``),
			payload("m-2", `,"model":"opus"`),
			payload("m-3", `,"permissionMode":"read-only"`),
			payload("m-4", `,"permissionMode":"yolo","model":null,"disallowedTools":["Edit"]`),
			`{"role":"session","content":{"id":"m-1","time":1,"role":"user","ev":{"t":"text","text":"<m-1> again"}}}`,
			payload("m-2", `,"model":"opus"`),
			payload("m-5", `,"customSystemPrompt":"You are a test.","disallowedTools":null`),
		}
		h.typing(lines...)
		h.settled(5)
		h.send("<m-6>")
		h.settled(6)
		h.kill() // so that the team, and the ids with it, stay
		h.start(flags...)
		h.up()
		h.typing(append(lines, payload("m-7", ``))...)
		h.settled(7)
		h.finish()
		if n := strings.Count(h.String(), "note: 1 payload in the modern form dropped"); n != 1 {
			t.Errorf("%d times it says that one payload was dropped, want once\n%s", n, h)
		}
		frames := h.worked([]work{
			{"<m-1>", "bypassPermissions", false, false, false},
			{"<m-2>", "bypassPermissions", true, false, false},
			{"<m-3>", "plan", true, false, false},
			{"<m-4>", "bypassPermissions", false, true, false},
			{"<m-5>", "bypassPermissions", false, false, true},
			{"<m-6>", "bypassPermissions", false, false, true},
			{"<m-7>", "bypassPermissions", false, false, true},
		})
		pids := map[string]int{}
		for _, s := range h.sayings() {
			if s.Status == "working" {
				pids[s.InFlight] = s.PID
			}
		}
		for i, same := range []bool{true, false, false, false, true} {
			if next := pids[frames[i+1]]; next == 0 || (next == pids[frames[i]]) != same {
				t.Errorf("<m-%d> is given to the process of the message before: %t, want %t: only the model changes in the one that runs; processes %v", i+2, !same, same, pids)
			}
		}
		h.oneSession()
	})
}

// A person's commands are alone in their frames, and no message is lost, even if a command makes a new session, which
// is resumed after a kill of both bridge and agent.
func TestRealCommandsOfAPerson(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		h := newHeadless(t, v, nil)
		h.start()
		first := h.up().Session
		// Some versions compact no conversation of a single turn.
		h.typing("<m-0>", "<m-1>", "/compact", "<m-2>", "/clear", "<m-3>")
		h.claimed(6)
		h.send("<m-4>", "<m-5>")
		h.settled(8)
		session, _ := h.agent()
		if session.ID == first {
			t.Errorf("session %s, at first %s", session.ID, first)
		}
		h.kill()
		h.killAgent()
		h.start()
		h.send("<m-6>")
		all := h.settled(9)
		h.finish()
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
			once(t, h.home.API, m)
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

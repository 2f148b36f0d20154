package interop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// Session protocol payloads reach the real agent once each, in the mode of their meta:
// its model, its permission mode, under the name that a front end has for it, its tools
// and system prompt. What is absent stays, null is what the command says, a payload in the
// form that is dropped is not heard, and neither is one that is sent again after a kill.
func TestRealPayloads(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		h := newHeadless(t, v, nil)
		ctx := deadline(t, 3*time.Minute)
		flags := []string{"--input", "wire", "--permission-mode-map", "read-only=plan,yolo=bypassPermissions"}
		h.start(flags...)
		h.up(ctx)
		l := h.ledger()
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
		h.settled(ctx, l, 5)
		h.send("<m-6>")
		h.settled(ctx, l, 6)
		h.kill() // so that the team, and with it the ids, stays
		h.start(flags...)
		h.up(ctx)
		h.typing(append(lines, payload("m-7", ``))...)
		all := h.settled(ctx, l, 7)
		if status := h.finish(ctx); status != 0 {
			t.Errorf("run ended with %d\n%s", status, h)
		}
		if n := strings.Count(h.String(), "note: 1 payload in the modern form dropped"); n != 1 {
			t.Errorf("%d times it says that one payload was dropped, want once\n%s", n, h)
		}
		asked := slices.DeleteFunc(h.asked(), func(r standin.Request) bool { return !r.Has("<m-") })
		if len(asked) != 7 {
			t.Fatalf("the model was asked %d times, want 7\n%s", len(asked), h)
		}
		for i, want := range []struct {
			m, mode              string
			opus, noEdit, prompt bool
		}{
			{"<m-1>", "bypassPermissions", false, false, false},
			{"<m-2>", "bypassPermissions", true, false, false},
			{"<m-3>", "plan", true, false, false},
			{"<m-4>", "bypassPermissions", false, true, false},
			{"<m-5>", "bypassPermissions", false, false, true},
			{"<m-6>", "bypassPermissions", false, false, true},
			{"<m-7>", "bypassPermissions", false, false, true},
		} {
			r := asked[i]
			if !r.Has(want.m) || strings.Contains(r.Model, "opus") != want.opus || slices.Contains(r.Tools, "Edit") == want.noEdit ||
				strings.Contains(r.System, "You are a test.") != want.prompt {
				t.Errorf("call %d, want %+v: %q, model %s, tools %q, system prompt %.300q", i+1, want, r.Texts, r.Model, r.Tools, r.System)
			}
			at := slices.IndexFunc(all, func(d ledger.Delivery) bool { return strings.Contains(string(d.Raw), want.m) })
			if d := all[at]; d.State != ledger.Done {
				t.Errorf("%s: %s (%s), want done", want.m, d.State, d.Reason)
			}
			if mode := permissionModeOf(t, h, all[at].Frame); mode != want.mode {
				t.Errorf("%s was said in permission mode %s, want %s", want.m, mode, want.mode)
			}
		}
	})
}

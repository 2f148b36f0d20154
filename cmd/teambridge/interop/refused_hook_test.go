package interop

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

const refuses = `"hooks":{"UserPromptSubmit":[{"hooks":[{"type":"command","command":"if grep -q forbidden; then echo not here >&2; exit 2; fi"}]}]}`

// If a hook of the user or the project refuses a message, its sender learns why, and the model is never given it.
func TestRealPromptRefusedByAHook(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newSomebody(t, nil)
		settings := `{"crossSessionInbound":"accept",` + refuses + `}`
		must(t, os.WriteFile(filepath.Join(p.home.Root, "settings.json"), []byte(settings), 0o600))
		program := standin.StartHeadless(t, v, p.home)
		prompts(t, p.ctx, program, "hello")
		s := p.sessionThat(p.ctx, func(s api.Session) bool {
			return s.PID == program.Pid() && s.Socket && (s.Word == api.WordIdle || s.Word == api.WordUnknown)
		})
		p.serves()
		name := strconv.Itoa(s.PID)
		status, _, errs := p.run("send", name, "[forbidden]", "--wait", "seen")
		if status == 0 || !strings.Contains(errs, "hook") || !strings.Contains(errs, "not here") {
			t.Errorf("send: %d, %s", status, errs)
		}
		p.must("ask", name, "[after]")
		if n := p.home.API.Count(standin.Main, "[forbidden]"); n != 0 {
			t.Errorf("the model was given the message %d times", n)
		}
	})
}

// The relay of a headless agent does not report such a message as done.
func TestRealRowRefusedByAHook(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		h := newHeadless(t, v, standin.Script)
		must(t, os.WriteFile(filepath.Join(h.home.Root, "settings.json"), []byte(`{`+refuses+`}`), 0o600))
		h.start()
		h.up()
		h.send("[forbidden]")
		h.settled(1)
		h.send("[after]")
		h.settled(2)
		h.finish()
		list, err := h.l.Deliveries.List(t.Context(), ledger.DeliveryQuery{Team: h.team})
		must(t, err)
		refused, after := list[1], list[0] // the newest is first
		if refused.State != ledger.Failed || !strings.Contains(refused.Reason, "hook refused it") || !strings.Contains(refused.Reason, "not here") || after.State != ledger.Done {
			t.Errorf("the messages: %+v", list)
		}
		if n := h.home.API.Count(standin.Main, "[forbidden]"); n != 0 {
			t.Errorf("the model was given the message %d times", n)
		}
	})
}

package interop

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// A hook of the user or the project can refuse a prompt. The model is never given such a message.
func TestRealPromptRefusedByAHook(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newSomebody(t, nil)
		settings := `{"crossSessionInbound":"accept","hooks":{"UserPromptSubmit":[{"hooks":[{"type":"command","command":"if grep -q forbidden; then echo not here >&2; exit 2; fi"}]}]}}`
		if err := os.WriteFile(filepath.Join(p.home.Root, "settings.json"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
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

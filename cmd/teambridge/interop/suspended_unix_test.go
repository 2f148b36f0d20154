//go:build unix

package interop

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// A message to a suspended session waits, the sender learns why, and the model is given it once afterwards.
func TestRealSuspendedSession(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newSomebody(t, nil)
		must(t, os.WriteFile(filepath.Join(p.home.Root, "settings.json"), []byte(`{"crossSessionInbound":"accept"}`), 0o600))
		program := standin.StartHeadless(t, v, p.home) // tmux would continue the program of a pane at once
		prompts(t, p.ctx, program, "hello")
		s := p.sessionThat(p.ctx, func(s api.Session) bool {
			return s.PID == program.Pid() && s.Socket && (s.Word == api.WordIdle || s.Word == api.WordUnknown)
		})
		p.serves()
		name := strconv.Itoa(s.PID)
		p.must("ask", name, "[before]")
		must(t, syscall.Kill(s.PID, syscall.SIGSTOP))
		t.Cleanup(func() { _ = syscall.Kill(s.PID, syscall.SIGCONT) })
		if status, _, errs := p.run("send", name, "[suspended]", "--timeout", "5s"); status != int(api.CodeTimeout.Exit()) || !strings.Contains(errs, "suspended") {
			t.Errorf("send: %d, %s", status, errs)
		}
		must(t, syscall.Kill(s.PID, syscall.SIGCONT))
		p.must("ask", name, "[after]")
		p.once("[suspended]", "[after]")
	})
}

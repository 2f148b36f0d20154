package standin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"teambridge/relay/process"
	"teambridge/relay/relaytest/model"
)

// RequireCodex returns the path of Codex, or skips or fails the test as Require does.
func RequireCodex(t testing.TB) string {
	t.Helper()
	return installedFor(t, "Codex", "codex", "node_modules", "@openai", "codex-*", "vendor", "*", "bin", "codex*")
}

// Codex makes the home one for Codex, too, and returns the program. Its model is gpt-5, for which the home's API
// answers. It asks for no permission. Its shared server outlives its terminals, and is killed when the test ends.
func (h *Home) Codex(t testing.TB) string {
	t.Helper()
	program := RequireCodex(t)
	h.forCodex(t)
	return program
}

// forCodex makes the home one for Codex.
func (h *Home) forCodex(t testing.TB) {
	t.Helper()
	dir := filepath.Join(h.Dir, ".codex")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`model = "gpt-5"
model_provider = "standin"
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.standin]
name = "standin"
base_url = %q
env_key = "STANDIN_KEY"
wire_api = "responses"
request_max_retries = 0
[analytics]
enabled = false
[projects.%q]
trust_level = "trusted"
`, h.API.URL+"/v1", h.Work)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Extra = append(h.Extra, "STANDIN_KEY="+model.Key)
	g, err := startGuard([]string{"PATH=" + os.Getenv("PATH")}, killHome, h.Dir)
	if err != nil {
		t.Fatalf("standin: guard the server of Codex: %v", err)
	}
	t.Cleanup(func() {
		g.disarm()
		process.KillByEnv("HOME=" + h.Dir)
		// The socket is a link to one outside the home.
		link := filepath.Join(dir, "app-server-control", "app-server-control.sock")
		if to, err := os.Readlink(link); err == nil {
			_ = os.Remove(to)
			_ = os.Remove(to + ".lock")
		}
	})
}

// StartCodex starts a program of [Home.Codex] with args, and returns when a prompt can be typed.
func StartCodex(t testing.TB, h *Home, program string, args ...string) *PromptTerminal {
	t.Helper()
	return startPromptTerminal(t, h, "› ", "gpt-5 ", append([]string{program}, args...))
}

// Thread returns the id of the thread of the terminal that got the marker as a prompt.
func (h *Home) Thread(ctx context.Context, marker string) (string, error) {
	r, err := h.API.Wait(ctx, func(r Request) bool { return !r.Side && r.Has(marker) })
	return r.Session, err
}

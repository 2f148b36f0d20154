package standin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teambridge/relay/process"
)

// RequireCodex returns the path of Codex, or skips or fails the test as Require does.
func RequireCodex(t testing.TB) string {
	t.Helper()
	dir, err := interop()
	if err != nil {
		missing(t, fmt.Errorf("Codex is not used: %w; %s", err, howToInstall))
	}
	found, err := filepath.Glob(filepath.Join(dir, "codex", "node_modules", "@openai", "codex-*", "vendor", "*", "bin", "codex*"))
	if err != nil || len(found) == 0 {
		missing(t, fmt.Errorf("Codex is not installed: no @openai/codex-*/vendor/*/bin/codex is in %s; %s", dir, howToInstall))
	}
	return found[0]
}

// Codex makes the home one for Codex, too, and returns the program. Its model is gpt-5, which the home's API answers for. It asks for no
// permission. Its shared server outlives its terminals, and is killed when the test ends.
func (h *Home) Codex(t testing.TB) string {
	t.Helper()
	program := RequireCodex(t)
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
	h.Extra = append(h.Extra, "STANDIN_KEY="+key)
	g, err := startGuard([]string{"PATH=" + os.Getenv("PATH")}, killHome, h.Dir)
	if err != nil {
		t.Fatalf("standin: guard the server of Codex: %v", err)
	}
	t.Cleanup(func() {
		g.disarm()
		process.KillWith("HOME=" + h.Dir)
		// The socket is a link to one outside of the home.
		link := filepath.Join(dir, "app-server-control", "app-server-control.sock")
		if to, err := os.Readlink(link); err == nil {
			_ = os.Remove(to)
			_ = os.Remove(to + ".lock")
		}
	})
	return program
}

// CodexTerminal is an interactive Codex in a tmux server of its own.
type CodexTerminal struct{ *Terminal }

// StartCodex starts a program of [Home.Codex] with args, and returns when a prompt can be typed.
func StartCodex(t testing.TB, h *Home, program string, args ...string) *CodexTerminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := &CodexTerminal{startCommand(ctx, t, h, []string{"env", "-i"}, append([]string{program}, args...))}
	if err := p.shows(ctx, func(screen string) bool {
		return strings.Contains(screen, "gpt-5 ") && strings.Contains(screen, "\n› ")
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

// Thread is the id of the thread of the terminal that was given the marker as a prompt.
func (h *Home) Thread(ctx context.Context, marker string) (string, error) {
	r, err := h.API.Wait(ctx, func(r Request) bool { return !r.Side && r.Has(marker) })
	return r.Session, err
}

// Prompt types a text of one line, and sends it off.
func (p *CodexTerminal) Prompt(ctx context.Context, text string) error {
	if err := p.Keys(ctx, "-l", text); err != nil {
		return err
	}
	last := func(screen string) string { // what is in the composer
		lines := strings.Split(screen, "\n")
		for _, line := range slices.Backward(lines) {
			if in, ok := strings.CutPrefix(line, "› "); ok {
				return in
			}
		}
		return ""
	}
	start := text[:min(len(text), 30)]
	if err := p.shows(ctx, func(screen string) bool { return strings.HasPrefix(last(screen), start) }); err != nil {
		return err
	}
	for {
		if err := p.Keys(ctx, "Enter"); err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(ctx, settle)
		err := p.shows(soon, func(screen string) bool { return !strings.HasPrefix(last(screen), start) })
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// shows waits until the screen is as wanted, in two looks in a row.
func (p *CodexTerminal) shows(ctx context.Context, want func(screen string) bool) error {
	looks := 0
	err := poll(ctx, func() (bool, error) {
		screen, err := p.capture(ctx)
		if err != nil {
			return false, err
		}
		if want(screen) {
			looks++
		} else {
			looks = 0
		}
		return looks >= 2, nil
	})
	if err != nil {
		return fmt.Errorf("standin: Codex: %w; the terminal shows:\n%s", err, p.Screen())
	}
	return nil
}

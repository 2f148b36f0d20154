package interop

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/teams"
)

// TestRealPaneWithoutService types into the real program by commands alone: each command ends when its message is
// confirmed, and the Stop hook reports the ends of tasks.
func TestRealPaneWithoutService(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := startRealPane(t, v)
		p.must("pane", "add", "build", "--pane", "%0", "--socket", p.Socket)
		l, err := ledger.Open(p.ctx, filepath.Join(p.dir, "ledger.db"))
		must(t, err)
		defer l.Close()
		ended := func(id string) bool {
			t.Helper()
			list, err := l.PaneMessages.EndedTasks(p.ctx, p.home.Root)
			must(t, err)
			return slices.ContainsFunc(list, func(m ledger.PaneMessage) bool { return m.ID == id && m.Lost == "" })
		}
		until := func(id string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(p.ctx, 90*time.Second)
			defer cancel()
			until(t, ctx, func() bool { return ended(id) }, func() string {
				return fmt.Sprintf("nobody was told that the task of %s has ended\n%s\n%s", id, p.home.API, p.Screen())
			})
		}
		send := func(id string) {
			t.Helper()
			p.must("send", "build", "["+id+"] HOLD-"+id, "--id", id, "--notify-on-stop")
		}

		send("idle")
		p.given("[idle]")
		if ended("idle") {
			t.Error("idle had ended while the agent worked on it")
		}
		p.release("idle")
		until("idle")

		p.prompt("HOLD-before work")
		p.given("HOLD-before")
		send("middle")
		p.release("before")
		p.given("[middle]")
		if ended("middle") {
			t.Error("middle ended with the task before it")
		}
		p.release("middle")
		until("middle")

		out, err := p.command("ask", "build", "[asked] hello", "--timeout", "2m").Output()
		if err != nil || strings.TrimSpace(string(out)) == "" {
			t.Errorf("asked: %q, %v", out, err)
		}
	})
}

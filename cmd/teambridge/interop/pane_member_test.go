package interop

import (
	"os/exec"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// Teammates that Claude Code starts in panes get messages there, although its shell stays in the foreground.
func TestRealTeammateInAPane(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := startRealPane(t, v, "--settings", `{"teammateMode": "tmux"}`)
		// The teammate gets the environment of the tmux server.
		for _, variable := range p.env {
			name, value, _ := strings.Cut(variable, "=")
			if out, err := exec.CommandContext(p.ctx, "tmux", "-S", p.Socket, "set-environment", "-g", name, value).CombinedOutput(); err != nil {
				t.Fatalf("tmux set-environment %s: %v\n%s", name, err, out)
			}
		}
		agent := map[string]string{"name": "worker", "description": "works", "prompt": "wait for messages"}
		p.prompt(standin.CallLine("Agent", agent))
		p.env = append(p.env, "TMUX="+p.Socket+",1,0")
		var out []byte
		p.until("a message in the pane of worker", func() bool {
			var err error
			// The member, its pane, or the prompt in it may not exist yet.
			out, err = p.command("send", "worker", "[via] hello", "--via", "pane", "--id", "via", "--timeout", "60s").CombinedOutput()
			return err == nil
		})
		if !strings.Contains(string(out), "received  worker@") {
			t.Errorf("send printed %s", out)
		}
		r, err := p.home.API.Wait(p.ctx, func(r standin.Request) bool { return !r.Side && r.Has("[via] hello") })
		if err != nil || r.Session == "" {
			t.Fatalf("worker was not given it: %+v, %v", r, err)
		}
		panes, err := exec.CommandContext(p.ctx, "tmux", "-S", p.Socket, "list-panes", "-a", "-F", "#{pane_id}").Output()
		must(t, err)
		for pane := range strings.FieldsSeq(string(panes)) {
			if pane == "%0" { // the lead's pane
				continue
			}
			if out, err := exec.CommandContext(p.ctx, "tmux", "-S", p.Socket, "kill-pane", "-t", pane).CombinedOutput(); err != nil {
				t.Fatalf("tmux kill-pane: %v\n%s", err, out)
			}
		}
		cmd := p.command("ask", "worker", "are you still there?", "--timeout", "2m")
		out, _ = cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != api.ExitNotFound || !strings.Contains(string(out), "the process of worker has ended") {
			t.Errorf("asked after its pane was closed: status %d\n%s", got, out)
		}
	})
}

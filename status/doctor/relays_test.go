package doctor

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/teams/teamstest"
)

// An agent that could not write its transcript is a problem that names the disk, even if its relay continues.
func TestLostWrites(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t)
	l, err := ledger.Open(t.Context(), filepath.Join(f.State, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f.Make("crew", 1_700_000_000_000, "worker")
	team := f.Team("crew")
	c, err := team.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := &examination{Checkup: Checkup{Root: f.Root, State: f.State}}
	s := ledger.Session{
		InboxKey: inbox.KeyOf(team, c, "worker"), ID: "s", Command: "claude", At: time.Now(), State: ledger.RelayBackOff,
		Reason: "status 0; " + agent.LostWrites + "the disk is full (ENOSPC): make room on the disk of /home/me/.claude",
	}
	if err := x.relay(t.Context(), l, s); err != nil {
		t.Fatal(err)
	}
	for _, found := range x.findings {
		if found.Code == "lost_writes" && strings.Contains(found.Message, "ENOSPC") && strings.HasSuffix(found.Message, "the disk of /home/me/.claude") && found.Advice != "" {
			return
		}
	}
	t.Errorf("found %+v, want what was lost on which disk", x.findings)
}

func TestRuntimeArgs(t *testing.T) {
	for command, want := range map[string]string{
		"claude --model sonnet":   "-- claude --model sonnet",
		"/opt/acpx/claude":        "-- /opt/acpx/claude",
		"opencode":                "--runtime opencode -- opencode",
		"http://127.0.0.1:4096":   "--runtime opencode --url http://127.0.0.1:4096",
		"/usr/bin/opencode acp":   "--runtime acp -- /usr/bin/opencode acp",
		"gemini --acp":            "--runtime acp -- gemini --acp",
		"codex-acp -c model=some": "--runtime acp -- codex-acp -c model=some",
	} {
		if got := runtimeArgs(command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

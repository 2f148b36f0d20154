package fleet

import (
	"os"
	"slices"
	"strings"
	"testing"

	"teambridge/relay/claude"
	"teambridge/relay/claude/simchild"
	"teambridge/relay/mode"
)

// versionVariable is what the program of these tests says of its version.
const versionVariable = "FLEET_TEST_VERSION"

// Whatever the version, an agent is told which member it is. Only one that knows
// the flag is told to take another system prompt when it resumes.
func TestLaunchByVersion(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	h.Make("red", 1, "worker")
	team, err := h.Root.Team("red")
	if err != nil {
		t.Fatal(err)
	}
	defer team.Close()
	for version, fresh := range map[string]bool{
		"2.1.80 (Claude Code)":  false,
		"2.1.200 (Claude Code)": false,
		"2.1.252 (Claude Code)": false,
		"2.1.257 (Claude Code)": true,
		"2.1.280 (Claude Code)": true,
		"2.1.310 (Claude Code)": true,
		"2.1.329 (Claude Code)": true,
		"9.0.0 (Claude Code)":   true,
		"my own claude":         false,
	} {
		child, err := Launch{Team: team, Member: "worker", Command: []string{os.Args[0]}, Env: append(os.Environ(), versionVariable+"="+version)}.Options(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := (claude.Member{Name: "worker", Team: team.Name()}); child.Member != want {
			t.Errorf("%s: member %+v, want %+v", version, child.Member, want)
		}
		child.Session, child.Resume = "aaaaaaaa-0000-4000-8000-000000000000", true
		child.Mode = mode.Mode{CustomSystemPrompt: mode.Set("You are a test.")}
		argv, _, err := child.Argv()
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(argv, "--system-prompt-snapshot"); got != fresh {
			t.Errorf("%s: %s", version, strings.Join(argv[1:], " "))
		}
	}
}

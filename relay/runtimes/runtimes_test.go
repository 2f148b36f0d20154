package runtimes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/claude"
	"teambridge/relay/mode"
	"teambridge/teams"
	"teambridge/teams/teamstest"
)

// versionVariable is what the program of these tests says of its version.
const versionVariable = "RUNTIMES_TEST_VERSION"

func TestMain(m *testing.M) {
	if version := os.Getenv(versionVariable); version != "" {
		fmt.Println(version)
		return
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// redTeam is a team with a worker.
func redTeam(t *testing.T) *teams.Team {
	t.Helper()
	f := teamstest.New(t)
	f.Make("red", 1, "worker")
	team, err := f.Root.Team("red")
	must(t, err)
	t.Cleanup(func() { team.Close() })
	return team
}

// Whatever the version, an agent is told which member it is. Only one that knows
// the flag is told to take another system prompt when it resumes.
func TestLaunchByVersion(t *testing.T) {
	t.Parallel()
	team := redTeam(t)
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
		runtime, err := Launch{
			Team: team, Member: "worker", Settings: ledger.Relay{Command: []string{os.Args[0]}}, Env: append(os.Environ(), versionVariable+"="+version),
		}.Runtime(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		child := runtime.(claude.Runtime).Options
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

// The password of a server that runs already is in a file or in the environment, and only
// such a server gets it.
func TestLaunchOpenCode(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:4096"
	team := redTeam(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	must(t, os.WriteFile(file, []byte("from the file\r\n"), 0o600))
	env := []string{openCodePassword + "=old", openCodePassword + "=of the environment", openCodeUser + "=me"}
	for _, test := range []struct {
		name           string
		settings       ledger.Relay
		user, password string
	}{
		{"of the environment", ledger.Relay{URL: url}, "me", "of the environment"},
		{"of a file", ledger.Relay{URL: url, PasswordFile: file}, "me", "from the file"},
		{"a server of its own", ledger.Relay{Command: []string{os.Args[0], "--print-logs"}}, "", ""},
	} {
		test.settings.Runtime, test.settings.Dir = OpenCode, dir
		o, err := Launch{Team: team, Member: "worker", Settings: test.settings, Env: env}.openCode()
		if err != nil || o.User != test.user || o.Password != test.password || o.URL != test.settings.URL || !slices.Equal(o.Command, test.settings.Command) {
			t.Errorf("%s: %+v, %v", test.name, o, err)
		}
		if told := strings.Contains(o.Instructions, `"worker", a member of the team "red"`); told != (test.settings.URL == "") {
			t.Errorf("%s: the instructions are %q", test.name, o.Instructions)
		}
	}
	if _, err := (Launch{Settings: ledger.Relay{Runtime: OpenCode, Dir: dir, URL: url, PasswordFile: file + "x"}}).Runtime(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "mine.exe"), nil, 0o700))
	for program, found := range map[string]bool{"./mine.exe": true, filepath.Join(dir, "mine.exe"): true, "./other": false, "there-is-none": false} {
		_, err := Launch{Team: team, Settings: ledger.Relay{Runtime: OpenCode, Dir: dir, Command: []string{program}}}.Runtime(t.Context())
		if _, missing := errors.AsType[*ProgramError](err); missing == found {
			t.Errorf("%s: %v", program, err)
		}
	}
}

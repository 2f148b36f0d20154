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
	"teambridge/teams"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// versionVariable has the version that the program of these tests reports.
const versionVariable = "RUNTIMES_TEST_VERSION"

func TestMain(m *testing.M) {
	if version := os.Getenv(versionVariable); version != "" {
		fmt.Println(version)
		return
	}
	os.Exit(m.Run())
}

var must = errtest.Must

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

// An outdated Claude Code is refused, with the required version. An unknown version counts as current, and a plain
// program is not asked.
func TestVersions(t *testing.T) {
	t.Parallel()
	team := redTeam(t)
	for version, outdated := range map[string]bool{
		"2.1.80 (Claude Code)":  true,
		"2.1.200 (Claude Code)": true,
		"2.1.256 (Claude Code)": true,
		"2.1.257 (Claude Code)": false,
		"9.0.0 (Claude Code)":   false,
		"my own claude":         false,
	} {
		for name, l := range map[string]Launch{
			"in a team": {Team: team, Member: "worker"}, "alone": {}, "plain": {Settings: ledger.Relay{Plain: true}}, "checked": {Checked: true},
		} {
			l.Settings.Command, l.Settings.Dir = []string{os.Args[0], "--flag"}, t.TempDir()
			l.Env = append(os.Environ(), versionVariable+"="+version)
			runtime, err := l.Runtime(t.Context())
			if outdated && name != "plain" && name != "checked" {
				want := os.Args[0] + " is Claude Code " + strings.Fields(version)[0] + ", and teambridge needs 2.1.257 or newer: update it with claude update"
				if !errors.As(err, new(*teams.OutdatedError)) || err.Error() != want {
					t.Errorf("%s, %s: got %v, want %s", version, name, err, want)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s, %s: %v", version, name, err)
			}
			// The agent gets its identity as a member.
			want := claude.Member{}
			if l.Team != nil {
				want = claude.Member{Name: "worker", Team: team.Name()}
			}
			if got := runtime.(claude.Runtime).Member; got != want {
				t.Errorf("%s, %s: member %+v, want %+v", version, name, got, want)
			}
		}
	}
}

// The password of a running server is in a file or in the environment, and only such a
// server gets it.
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

// A named agent of the Agent Client Protocol is recorded under its name, by default with its usual command.
func TestNamesOfACP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, want := range map[string]string{"codex": "codex-acp", "gemini": "gemini --acp", "qwen": "qwen --acp"} {
		r := ledger.Relay{Root: dir, Dir: dir, Runtime: name}
		must(t, Check(&r))
		if kind, ok := Find(name); !ok || kind.NeedsCommand || r.Runtime != ACP || strings.Join(r.Command, " ") != want {
			t.Errorf("%s: %q with %q; %+v, %t", name, r.Runtime, r.Command, kind, ok)
		}
		r = ledger.Relay{Root: dir, Dir: dir, Runtime: name, Command: []string{"/opt/own", "--acp"}}
		if must(t, Check(&r)); r.Runtime != ACP || r.Command[0] != "/opt/own" {
			t.Errorf("%s: %q with %q", name, r.Runtime, r.Command)
		}
	}
	r := ledger.Relay{Root: dir, Dir: dir, Runtime: "codex", Command: []string{"/usr/bin/codex"}}
	if err := Check(&r); err == nil || !strings.Contains(err.Error(), "codex-acp") {
		t.Errorf("the Codex of terminals as an agent: %v", err)
	}
}

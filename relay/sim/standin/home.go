package standin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"teambridge/relay/process"
)

// key is sent to the stand-in API only; Claude Code wants one and asks a person about keys that are not approved.
const key = "sk-ant-stand-in-0123456789abcdef"

// Home is a user's surroundings for Claude Code: a home folder, a configuration root and a folder to work in, all below
// Dir, which belong to no account and are told to reach nothing but the API.
type Home struct {
	// Dir is HOME.
	Dir string
	// Root is CLAUDE_CONFIG_DIR; teams stand in Root/teams.
	Root string
	// Work is the working directory, trusted already.
	Work string
	// API answers for the model.
	API *API
	// Extra is added to the environment, as "NAME=value"; it may override what Env sets.
	Extra []string
}

// NewHome makes a home in a temporary folder that is removed when the test ends, after what still runs in it was killed
// (on Linux), also what the code under test started. A nil API starts one with Script.
func NewHome(t testing.TB, api *API) *Home {
	t.Helper()
	if api == nil {
		api = StartAPI(t, nil)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir()) // trust is recorded by the real path
	if err != nil {
		t.Fatal(err)
	}
	h := &Home{Dir: dir, Root: filepath.Join(dir, "claude"), Work: filepath.Join(dir, "work"), API: api}
	for _, d := range []string{h.Root, h.Work, h.temp()} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { h.sweep() }) // before the folder is removed, behind everybody else's
	config, err := json.MarshalIndent(object{
		"hasCompletedOnboarding":        true,
		"theme":                         "dark",
		"bypassPermissionsModeAccepted": true,
		// Older versions look for the last 20 characters, newer ones for the whole key.
		"customApiKeyResponses": object{"approved": []string{key[len(key)-20:], key}, "rejected": []string{}},
		"projects":              object{h.Work: object{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.Root, ".claude.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// Env is the whole environment to start Claude Code or OpenCode with: nothing is inherited but PATH, so neither an account of the
// person who runs the tests nor a session around the tests reaches it.
func (h *Home) Env() []string {
	return append([]string{
		"HOME=" + h.Dir,
		h.mark(),
		"TMPDIR=" + h.temp(),
		"CLAUDE_CODE_TMPDIR=" + h.temp(),
		"PATH=" + os.Getenv("PATH"),
		"SHELL=/bin/sh",
		"LANG=C.UTF-8",
		"TERM=xterm-256color",
		"ANTHROPIC_BASE_URL=" + h.API.URL,
		"ANTHROPIC_API_KEY=" + key,
		"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1",
		"DISABLE_AUTOUPDATER=1",
		"DISABLE_TELEMETRY=1",
		"DISABLE_ERROR_REPORTING=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		// Without this an interactive session tries to clone a repository of plugins.
		"CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL=1",
		// Guesses at the next prompt are calls of the model that no test asked for.
		"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION=false",
		// Lets root skip permissions; containers run tests as root.
		"IS_SANDBOX=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_AUTOUPDATE=1",
	}, h.Extra...)
}

func (h *Home) temp() string { return filepath.Join(h.Dir, "tmp") }

// sweep kills what is still running in this home, each by its own id: commands of the Bash tool get a session of their
// own and outlive a killed agent. The environment tells them, because every process a home starts inherits its root.
// Without /proc there is none.
func (h *Home) sweep() {
	process.KillWith(h.mark())
}

// mark is what the environment of everything has that a home starts.
func (h *Home) mark() string { return "CLAUDE_CONFIG_DIR=" + h.Root }

// exists is false once the process has ended, whether or not its parent has noticed: a tmux 3.3a server can forget to
// ask for as long as it runs.
func exists(pid int) bool {
	alive, _ := process.Identify(pid).Alive() // of that id alone
	return alive
}

package model

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"teambridge/relay/process"
)

// Key is sent to the stand-in API only; Claude Code wants one and asks a person about keys that are not approved.
const Key = "sk-ant-stand-in-0123456789abcdef"

// Home is a user's surroundings for Claude Code: a home folder, a configuration root and a folder to work in, all below
// Dir, which belong to no account and are configured to reach only the API.
type Home struct {
	// Dir is HOME.
	Dir string
	// Root is CLAUDE_CONFIG_DIR; teams are in Root/teams.
	Root string
	// Work is the working directory, trusted already.
	Work string
	// API answers for the model.
	API *API
	// Extra is added to the environment, as "NAME=value"; it may override what Env sets.
	Extra []string
}

// NewHome makes a home in an empty folder.
func NewHome(dir string, api *API) (*Home, error) {
	dir, err := filepath.EvalSymlinks(dir) // trust is recorded by the real path
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	h := &Home{Dir: dir, Root: filepath.Join(dir, "claude"), Work: filepath.Join(dir, "work"), API: api}
	for _, d := range []string{h.Root, h.Work, h.Temp()} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
	}
	config, err := json.MarshalIndent(object{
		"hasCompletedOnboarding":        true,
		"theme":                         "dark",
		"bypassPermissionsModeAccepted": true,
		// Some versions look for the last 20 characters, others for the whole key.
		"customApiKeyResponses": object{"approved": []string{Key[len(Key)-20:], Key}, "rejected": []string{}},
		"projects":              object{h.Work: object{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(h.Root, ".claude.json"), config, 0o600); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return h, nil
}

// Env is the whole environment to start Claude Code or OpenCode with: nothing is inherited but PATH, so neither an account of
// the person who runs it nor a session around it reaches it.
func (h *Home) Env() []string {
	return append([]string{
		"HOME=" + h.Dir,
		h.Mark(),
		"TMPDIR=" + h.Temp(),
		"CLAUDE_CODE_TMPDIR=" + h.Temp(),
		"PATH=" + os.Getenv("PATH"),
		"SHELL=/bin/sh",
		"LANG=C.UTF-8",
		"TERM=xterm-256color",
		"ANTHROPIC_BASE_URL=" + h.API.URL,
		"ANTHROPIC_API_KEY=" + Key,
		"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1",
		"DISABLE_AUTOUPDATER=1",
		"DISABLE_TELEMETRY=1",
		"DISABLE_ERROR_REPORTING=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		// Without this an interactive session tries to clone a repository of plugins.
		"CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL=1",
		// Suggestions of the next prompt are unwanted calls of the model.
		"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION=false",
		// Lets root skip permissions; containers run tests as root.
		"IS_SANDBOX=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_AUTOUPDATE=1",
	}, h.Extra...)
}

// Temp is the folder for temporary files.
func (h *Home) Temp() string { return filepath.Join(h.Dir, "tmp") }

// Sweep kills the processes that still run in this home, each by its own id: commands of the Bash tool get a session
// of their own and outlive a killed agent. They are found by their environment, because every process of a home
// inherits its root. Without /proc, none is found.
func (h *Home) Sweep() { process.KillByEnv(h.Mark()) }

// Mark returns an entry in the environment of all processes of a home.
func (h *Home) Mark() string { return "CLAUDE_CONFIG_DIR=" + h.Root }

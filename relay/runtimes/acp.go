package runtimes

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"teambridge/inbox/ledger"
	"teambridge/relay/acp"
	"teambridge/relay/agent"
)

func openACP(_ context.Context, l Launch) (agent.Runtime, error) {
	r := l.Settings
	if l.Tools != nil {
		return nil, fmt.Errorf("runtimes: an agent of the Agent Client Protocol takes no list of tools: %w", agent.ErrRefused)
	}
	program := r.Command[0]
	if filepath.Base(program) != program && !filepath.IsAbs(program) {
		program = filepath.Join(r.Dir, program)
	}
	if _, err := exec.LookPath(program); err != nil {
		return nil, &ProgramError{err}
	}
	o := acp.Options{Command: r.Command, Dir: r.Dir, Env: l.Env, State: l.State, Permission: l.Permission, Stderr: l.Stderr}
	if l.Team != nil {
		o.Instructions = l.instructions()
	}
	return acp.New(o), nil
}

// checkACP reports whether a program of the Agent Client Protocol can be started.
func checkACP(r *ledger.Relay) error {
	switch {
	case r.URL != "" || r.PasswordFile != "":
		return &SettingError{"url", "an agent of the Agent Client Protocol has no server; it is for --runtime opencode"}
	case r.Profile != "":
		return &SettingError{"profile", "an agent of the Agent Client Protocol takes none"}
	case r.Plain:
		return &SettingError{"plain", "it is for programs that speak Claude Code's stream-json"}
	case len(r.Command) == 0 || r.Command[0] == "":
		return &SettingError{"command", "give the agent's command, such as gemini --acp"}
	}
	return nil
}

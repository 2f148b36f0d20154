package runtimes

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/teams"
)

// checkClaude returns a *[SettingError] if flags contradict each other, or the needs of a relay.
func checkClaude(r *ledger.Relay) error {
	if r.URL != "" || r.PasswordFile != "" {
		return &SettingError{"url", "Claude Code has no server; it is for --runtime opencode"}
	}
	if _, _, err := (claude.Options{Command: r.Command, Plain: r.Plain}).Argv(); err != nil {
		if bad, ok := errors.AsType[*claude.CommandError](err); ok {
			err = bad.Err
		}
		return &SettingError{"command", err.Error()}
	}
	switch {
	case r.Profile == "":
	case r.Plain:
		return &SettingError{"profile", "it is given by flags, which --plain does not add"}
	case slices.ContainsFunc(r.Command, func(arg string) bool { return arg == "--agent" || strings.HasPrefix(arg, "--agent=") }):
		return &SettingError{"profile", "the command has --agent, which is the same; give one of them"}
	}
	return nil
}

func openClaude(ctx context.Context, l Launch) (agent.Runtime, error) {
	r := l.Settings
	child := claude.Options{
		Command: slices.Clone(r.Command), Plain: r.Plain, Root: r.Root, Dir: r.Dir, Env: l.Env, Profile: profileOf(r), Stderr: l.Stderr,
		Permission: l.allowing(l.Tools),
	}
	if l.Tools != nil {
		// The flag applies to built-in tools only.
		built := slices.DeleteFunc(slices.Clone(l.Tools), func(name string) bool { return strings.HasPrefix(name, "mcp__") })
		child.Command = append(child.Command, "--tools="+strings.Join(built, ","))
	}
	if l.MCPConfig != "" {
		child.Command = append(child.Command, "--mcp-config="+l.MCPConfig)
	}
	if l.Team != nil {
		child.Root = l.Team.Root().Path()
		child.Env = append(slices.Clone(l.Env), "CLAUDE_CONFIG_DIR="+child.Root, "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1")
	}
	if !l.Checked {
		if err := CheckProgram(ctx, r, child.Env); err != nil {
			return nil, err
		}
	}
	if l.Team != nil && !r.Plain {
		// Without a name, its SendMessage would reach nobody.
		child.Member = claude.Member{Name: l.Member, Team: l.Team.Name()}
	}
	return claude.Runtime{Options: child}, nil
}

// CheckProgram asks the Claude Code of an agent for its version, which it prints as "2.1.257 (Claude Code)". It returns a
// *[teams.OutdatedError] if that is outdated, and a *[ProgramError] if there is no such program. A wrapper that prints
// something else counts as a current version. Other programs, which are Plain or of another runtime, are not asked.
func CheckProgram(ctx context.Context, r ledger.Relay, env []string) error {
	if kind, _ := Find(r.Runtime); r.Plain || kind.Name != Claude {
		return nil
	}
	command := r.Command
	if len(command) == 0 {
		return &ProgramError{errors.New("there is no command")}
	}
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// Ask the program, or the script of an interpreter, without its flags.
	n := 1
	for n < len(command) && !strings.HasPrefix(command[n], "-") {
		n++
	}
	cmd := exec.CommandContext(bounded, command[0], append(slices.Clone(command[1:n]), "--version")...)
	cmd.Env, cmd.Dir = env, r.Dir
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		said := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok { // for example, env does not find node
			if said, _, _ = strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n"); said != "" {
				said = fmt.Sprintf(": %.200s", said)
			}
		}
		return &ProgramError{fmt.Errorf("ask %s for its version: %w%s", command[0], err, said)}
	}
	version, _ := teams.ParseVersion(string(out))
	return version.Check(strings.Join(command[:n], " "))
}

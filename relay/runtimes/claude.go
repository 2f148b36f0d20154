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

// checkClaude returns a *[SettingError] if the flags contradict each other, or what a relay needs.
func checkClaude(r *ledger.Relay) error {
	if r.URL != "" || r.PasswordFile != "" {
		return &SettingError{"url", "Claude Code has no server; it is for --runtime opencode"}
	}
	if _, _, err := (claude.Options{Command: r.Command, Plain: r.Plain}).Argv(); err != nil {
		reason := err.Error()
		if _, why, ok := strings.Cut(reason, claude.ErrInvalid.Error()+": "); ok {
			reason = why
		}
		return &SettingError{"command", reason}
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

// openClaude asks Claude Code for its version if the agent is in a team, unless it is Plain.
func openClaude(ctx context.Context, l Launch) (agent.Runtime, error) {
	r := l.Settings
	child := claude.Options{
		Command: slices.Clone(r.Command), Plain: r.Plain, Root: r.Root, Dir: r.Dir, Env: l.Env, Profile: profileOf(r), Stderr: l.Stderr,
		Permission: l.allowing(l.Tools), OldProfiles: true, OldRules: true,
	}
	if l.Tools != nil {
		// All measured versions, 2.1.80 to 2.1.330, know the flag. It is about built-in tools.
		built := slices.DeleteFunc(slices.Clone(l.Tools), func(name string) bool { return strings.HasPrefix(name, "mcp__") })
		child.Command = append(child.Command, "--tools="+strings.Join(built, ","))
	}
	if l.MCPConfig != "" {
		child.Command = append(child.Command, "--mcp-config="+l.MCPConfig)
	}
	if l.Team == nil {
		return claude.Runtime{Options: child}, nil
	}
	child.Root = l.Team.Root().Path()
	child.Env = append(slices.Clone(l.Env), "CLAUDE_CONFIG_DIR="+child.Root, "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1")
	if r.Plain {
		return claude.Runtime{Options: child}, nil
	}
	version, err := Version(ctx, r.Command, r.Dir, child.Env)
	if err != nil {
		return nil, err
	}
	// Every version knows these flags. Without them its SendMessage reaches nobody.
	child.Member = claude.Member{Name: l.Member, Team: l.Team.Name()}
	// Versions that do not know this flag do not start with it.
	child.FreshPrompt = version.Has(teams.SnapshotFlag) == teams.Yes
	// With LimitsProfile, too, which is older.
	child.OldProfiles = version.Has(teams.NearestProfile) != teams.Yes
	child.OldRules = version.Has(teams.RulesForServers) != teams.Yes
	return claude.Runtime{Options: child}, nil
}

// Version asks a Claude Code for its version: "2.1.80 (Claude Code)".
func Version(ctx context.Context, command []string, dir string, env []string) (teams.Version, error) {
	if len(command) == 0 {
		return teams.Version{}, &ProgramError{errors.New("there is no command")}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// Ask the program, or the script of an interpreter, without its flags.
	n := 1
	for n < len(command) && !strings.HasPrefix(command[n], "-") {
		n++
	}
	cmd := exec.CommandContext(ctx, command[0], append(slices.Clone(command[1:n]), "--version")...)
	cmd.Env, cmd.Dir = env, dir
	out, err := cmd.Output()
	if err != nil {
		return teams.Version{}, &ProgramError{fmt.Errorf("ask %s for its version: %w", command[0], err)}
	}
	version, _ := teams.ParseVersion(string(out)) // unknown if a wrapper prints something else
	return version, nil
}

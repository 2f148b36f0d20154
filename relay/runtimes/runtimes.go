// Package runtimes is the table of the runtimes that agents can have: what each is called, which
// settings it takes, and how its agents are started.
package runtimes

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/profile"
	"teambridge/teams"
)

// The names of the runtimes. Empty is Claude Code, too.
const (
	Claude   = "claude"
	OpenCode = "opencode"
	ACP      = "acp" // any program that speaks the Agent Client Protocol
)

// Kind is a runtime.
type Kind struct {
	Name   string
	Modes  []string // permission modes that its agents can be given
	NoMCP  string   // why its agents can be given no MCP servers; empty: they can
	NoList string   // why its agents can be given neither a list of tools nor a profile; empty: they can

	// JoinsAny says that an agent becomes a member of any team that it is to be in. Agents of Claude
	// Code become members of teams that were made here: a lead starts its own in its team.
	JoinsAny bool

	// NeedsCommand says that there is no usual program.
	NeedsCommand bool

	check func(*ledger.Relay) error
	open  func(context.Context, Launch) (agent.Runtime, error)
}

// all returns the table.
func all() []Kind {
	return []Kind{
		{Name: Claude, Modes: mode.Permissions(), check: checkClaude, open: openClaude},
		{
			Name: OpenCode, Modes: []string{"plan", "default", "acceptEdits", "bypassPermissions"}, JoinsAny: true,
			NoMCP: "OpenCode 1.18 gives such a session no tools of MCP servers", check: checkOpenCode, open: openOpenCode,
		},
		{
			Name: ACP, Modes: []string{"plan", "default", "acceptEdits", "bypassPermissions"}, JoinsAny: true, NeedsCommand: true,
			NoMCP: "MCP servers are not given to agents of the Agent Client Protocol", NoList: "the Agent Client Protocol has no way to limit tools", check: checkACP, open: openACP,
		},
	}
}

// acpAgents returns the usual commands of agents of the Agent Client Protocol by the names that they have as runtimes. A relay
// is recorded with [ACP] and the command.
func acpAgents() map[string][]string {
	return map[string][]string{"codex": {"codex-acp"}, "gemini": {"gemini", "--acp"}, "qwen": {"qwen", "--acp"}}
}

// Names returns the names of the runtimes, and those of agents of [ACP] that need no command.
func Names() (names []string) {
	for _, k := range all() {
		names = append(names, k.Name)
	}
	return append(names, slices.Sorted(maps.Keys(acpAgents()))...)
}

// Find returns the runtime of that name.
func Find(name string) (Kind, bool) {
	list := all()
	if acpAgents()[name] != nil {
		kind := list[len(list)-1]
		kind.NeedsCommand = false
		return kind, true
	}
	if i := slices.IndexFunc(list, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return list[i], true
	}
	return list[0], name == ""
}

// JoinsAny is [Kind.JoinsAny] of the agent of a relay.
func JoinsAny(r ledger.Relay) bool {
	k, _ := Find(r.Runtime)
	return k.JoinsAny
}

// SettingError says that an agent cannot be started with one of its settings.
type SettingError struct {
	Setting string // as the flag of "relay add" is called; "command" is one
	Reason  string
}

func (e *SettingError) Error() string { return e.Setting + ": " + e.Reason }

// ProgramError says that there is no such program, or that it did not print its version, as
// Claude Code does.
type ProgramError struct{ Err error }

func (e *ProgramError) Error() string { return e.Err.Error() }
func (e *ProgramError) Unwrap() error { return e.Err }

// Check checks what the settings of a relay say of its agent, and replaces each by its usual
// form. Root must be set. The error is a *[SettingError], or one of [profile.Ref.Load].
func Check(r *ledger.Relay) error {
	// It is kept as JSON, which would change it.
	if slices.ContainsFunc(r.Command, func(word string) bool { return !utf8.ValidString(word) }) {
		return &SettingError{"command", fmt.Sprintf("%q is not valid UTF-8", r.Command)}
	}
	if len(r.Mode) > 0 {
		if _, err := mode.Parse(r.Mode); err != nil {
			return &SettingError{"mode", err.Error()}
		}
	}
	if command := acpAgents()[r.Runtime]; command != nil {
		if len(r.Command) == 0 {
			r.Command = command
		} else if r.Runtime == "codex" && filepath.Base(r.Command[0]) == "codex" {
			return &SettingError{"command", `codex is Codex for terminals; its agent is codex-acp (npm install -g @zed-industries/codex-acp), and needs no command here. Its sessions at terminals are written to as they are: see "teambridge sessions"`}
		}
		r.Runtime = ACP
	}
	kind, ok := Find(r.Runtime)
	if !ok {
		return &SettingError{"runtime", fmt.Sprintf("%q is neither %s", r.Runtime, strings.Join(Names(), " nor "))}
	}
	if kind.Name == Claude {
		r.Runtime = ""
	}
	if err := kind.check(r); err != nil {
		return err
	}
	// A service was started in another directory than the caller.
	if !filepath.IsAbs(r.Dir) {
		return &SettingError{"dir", fmt.Sprintf("%q is not an absolute path", r.Dir)}
	}
	dir, err := filepath.EvalSymlinks(r.Dir)
	if err != nil {
		return &SettingError{"dir", err.Error()}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return &SettingError{"dir", r.Dir + " is not a directory"}
	}
	r.Dir = dir
	if r.Profile != "" {
		_, err = profileOf(*r).Load()
	}
	return err
}

// profileOf is the profile of a relay's agent.
func profileOf(r ledger.Relay) profile.Ref {
	if r.Profile == "" {
		return profile.Ref{}
	}
	return profile.Ref{Name: r.Profile, Dir: r.Dir, Root: r.Root}
}

// Launch says how an agent is started.
type Launch struct {
	Settings   ledger.Relay // as [Check] leaves them
	Team       *teams.Team  // nil: it is in none, and Settings.Root is the directory of Claude Code
	Member     string       // its name in the team
	State      string       // our state directory
	Env        []string     // as "NAME=value"; nil is ours
	Checked    bool         // [CheckProgram] has found nothing
	Permission *agent.Permission
	Stderr     io.Writer

	// Tools, if not nil, are all tools that the agent has, by the names of Claude Code. It uses them
	// without being asked.
	Tools     []string
	MCPConfig string // a file that names its MCP servers; only if there is no [Kind.NoMCP]
	Bound     bool   // a server ends with this process, even if that is killed (on Linux)
}

// Runtime returns what starts the agent. *[ProgramError] if there is no such program, *[teams.OutdatedError] if it is an
// outdated Claude Code.
func (l Launch) Runtime(ctx context.Context) (agent.Runtime, error) {
	// Agents keep their conversations under the real path.
	dir, err := filepath.EvalSymlinks(l.Settings.Dir)
	if err != nil {
		return nil, fmt.Errorf("runtimes: the agent's directory: %w", err)
	}
	l.Settings.Dir = dir
	if l.Env == nil {
		l.Env = os.Environ()
	}
	kind, ok := Find(l.Settings.Runtime)
	if !ok {
		return nil, fmt.Errorf("runtimes: there is no runtime %q", l.Settings.Runtime)
	}
	return kind.open(ctx, l)
}

// allowing is the permission of an agent that may use tools without being asked.
func (l Launch) allowing(tools []string) *agent.Permission {
	if l.Tools == nil || l.Permission == nil {
		return l.Permission
	}
	p := *l.Permission
	p.Allow = tools
	return &p
}

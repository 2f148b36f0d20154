// Package runtimes is the table of the runtimes of agents: the name and the settings of each, and how to start its
// agents.
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

// The names of the runtimes. An empty name is Claude Code, too.
const (
	Claude   = "claude"
	OpenCode = "opencode"
	ACP      = "acp" // any program that speaks the Agent Client Protocol
)

// Kind is a runtime.
type Kind struct {
	Name   string
	Modes  []string // permission modes that its agents support
	NoMCP  string   // why its agents cannot have MCP servers; empty if they can
	NoList string   // why its agents cannot have a list of tools or a profile; empty if they can

	// JoinsAny means that an agent can become a member of any team. An agent of Claude Code can only join teams that
	// were made here: in other teams, the lead starts its own agents.
	JoinsAny bool

	// NeedsCommand means that the runtime has no default program.
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

// acpAgents returns the default commands of agents of the Agent Client Protocol, by their names as runtimes. The
// record of their relay has [ACP] and the command.
func acpAgents() map[string][]string {
	return map[string][]string{"codex": {"codex-acp"}, "gemini": {"gemini", "--acp"}, "qwen": {"qwen", "--acp"}}
}

// Names returns the names of the runtimes, and of the agents of [ACP] that need no command.
func Names() (names []string) {
	for _, k := range all() {
		names = append(names, k.Name)
	}
	return append(names, slices.Sorted(maps.Keys(acpAgents()))...)
}

// Find returns the runtime with that name.
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

// JoinsAny returns [Kind.JoinsAny] for the agent of a relay.
func JoinsAny(r ledger.Relay) bool {
	k, _ := Find(r.Runtime)
	return k.JoinsAny
}

// SettingError reports a setting with which an agent cannot be started.
type SettingError struct {
	Setting string // the name of its flag of "relay add"; "command" for the command
	Reason  string
}

func (e *SettingError) Error() string { return e.Setting + ": " + e.Reason }

// ProgramError reports that a program does not exist, or fails to print its version as Claude Code does.
type ProgramError struct{ Err error }

func (e *ProgramError) Error() string { return e.Err.Error() }
func (e *ProgramError) Unwrap() error { return e.Err }

// Check checks the settings of a relay's agent, and replaces each by its usual form. Root must be set. The error is a
// *[SettingError], or one of [profile.Ref.Load].
func Check(r *ledger.Relay) error {
	// The command is kept as JSON, which would change invalid text.
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
	// The service may run in another directory than the caller.
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

// profileOf returns the profile of a relay's agent.
func profileOf(r ledger.Relay) profile.Ref {
	if r.Profile == "" {
		return profile.Ref{}
	}
	return profile.Ref{Name: r.Profile, Dir: r.Dir, Root: r.Root}
}

// Launch has the options for starting an agent.
type Launch struct {
	Settings   ledger.Relay // as returned by [Check]
	Team       *teams.Team  // nil if it is in no team; then Settings.Root is Claude Code's directory
	Member     string       // its name in the team
	State      string       // our state directory
	Env        []string     // as "NAME=value"; nil for our own
	Checked    bool         // [CheckProgram] found no problem
	Permission *agent.Permission
	Stderr     io.Writer

	// Tools, if not nil, lists all tools that the agent has, by Claude Code's names. It may use them without asking.
	Tools     []string
	MCPConfig string // a file with its MCP servers; only without [Kind.NoMCP]
	Bound     bool   // a server ends with this process, even if this process is killed (on Linux)
}

// Runtime returns the runtime that starts the agent. It fails with a *[ProgramError] if the program does not exist,
// and with a *[teams.OutdatedError] if it is an outdated Claude Code.
func (l Launch) Runtime(ctx context.Context) (agent.Runtime, error) {
	// Agents record their conversations under the real path.
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

// allowing returns the permission of an agent that may use tools without asking.
func (l Launch) allowing(tools []string) *agent.Permission {
	if l.Tools == nil || l.Permission == nil {
		return l.Permission
	}
	p := *l.Permission
	p.Allow = tools
	return &p
}

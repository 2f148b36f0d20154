package query

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/mode"
	"teambridge/relay/opencode"
	"teambridge/relay/profile"
	"teambridge/teams"
)

// architecture is a kind of agent.
type architecture struct {
	name  string
	modes []string // permission modes
	noMCP string   // why MCPServers cannot be given; empty: they can
	// open returns how agents are run for an input. done removes what that needs.
	open func(o Options, in Input, dir string) (r agent.Runtime, done func() error, err error)
}

func architectures() []architecture {
	return []architecture{
		{"claude", mode.Permissions(), "", openClaude},
		{"opencode", []string{"plan", "default", "acceptEdits", "bypassPermissions"},
			"OpenCode 1.18 gives such a session no tools of MCP servers", openOpenCode},
	}
}

// Architectures returns the names of the kinds of agents.
func Architectures() (names []string) {
	for _, a := range architectures() {
		names = append(names, a.name)
	}
	return names
}

func (in Input) architecture() (architecture, error) {
	name, all := cmp.Or(in.Architecture, "claude"), architectures()
	if i := slices.IndexFunc(all, func(a architecture) bool { return a.name == name }); i >= 0 {
		return all[i], nil
	}
	return architecture{}, invalid("architecture", "is %.40q, must be one of %s", in.Architecture, strings.Join(Architectures(), ", "))
}

// mode is what an agent of a runtime starts with. Settings that the command names count, if
// the input does not have them.
func (in Input) mode(r agent.Runtime) mode.Mode {
	m := mode.Mode{PermissionMode: mode.Set(cmp.Or(in.PermissionMode, "default"))}
	if in.PermissionMode == "" {
		m = r.Unnamed(m)
	}
	if in.Model != "" {
		m.Model = mode.Set(in.Model)
	}
	return m
}

// denial is the answer to an agent that may not use a tool.
func (in Input) denial() string {
	if len(in.Tools) == 0 {
		return agent.Nobody
	}
	return agent.Nobody + " These tools may be used: " + strings.Join(in.Tools, ", ")
}

// profile is the profile of the agent, with where it is looked for.
func (in Input) profile(dir, root string) profile.Ref {
	if in.Profile == "" {
		return profile.Ref{}
	}
	return profile.Ref{Name: in.Profile, Dir: dir, Root: root}
}

func openClaude(o Options, in Input, dir string) (agent.Runtime, func() error, error) {
	done := func() error { return nil }
	root, err := teams.Find(o.ClaudeRoot, o.lookup)
	if err != nil {
		return nil, nil, err
	}
	command := slices.Clone(o.Claude)
	if len(command) == 0 {
		command = []string{"claude"}
	}
	if in.Tools != nil {
		// All measured versions, 2.1.80 to 2.1.330, know the flag. It is about built-in tools.
		built := slices.DeleteFunc(slices.Clone(in.Tools), func(name string) bool { return strings.HasPrefix(name, "mcp__") })
		command = append(command, "--tools="+strings.Join(built, ","))
	}
	if len(in.MCPServers) > 0 {
		// A file, since everybody can see the command line of a process.
		path, err := mcpConfig(in.MCPServers)
		if err != nil {
			return nil, nil, err
		}
		done = func() error { return os.Remove(path) }
		command = append(command, "--mcp-config="+path)
	}
	env := o.Env
	if o.ClaudeRoot != "" {
		if env == nil {
			env = os.Environ()
		}
		env = append(slices.Clone(env), "CLAUDE_CONFIG_DIR="+root)
	}
	return claude.Runtime{Options: claude.Options{
		Root:    root,
		Command: command, Dir: dir, Env: env, Stderr: o.Stderr,
		Profile: in.profile(dir, root), OldProfiles: true, OldRules: true, // its version is not known
		Permission: &agent.Permission{Allow: in.Tools, Reason: in.denial()},
	}}, done, nil
}

func openOpenCode(o Options, in Input, dir string) (agent.Runtime, func() error, error) {
	state := o.State
	if state == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, nil, fmt.Errorf("query: a state directory: %w", err)
		}
		state = filepath.Join(cache, "teambridge")
	}
	var wanted profile.Ref
	if in.Profile != "" {
		root, err := teams.Find(o.ClaudeRoot, o.lookup)
		if err != nil {
			return nil, nil, err
		}
		wanted = in.profile(dir, root)
	}
	var tools []string
	if in.Tools != nil {
		tools = []string{}
	}
	for _, tool := range in.Tools {
		switch tool = strings.ToLower(tool); tool {
		case "write", "multiedit", "patch", "apply_patch": // one rule is for all of them
			tool = "edit"
		}
		tools = append(tools, tool)
	}
	r := opencode.New(opencode.Options{
		Command: o.OpenCode, Dir: dir, Env: o.Env, State: state, Profile: wanted, Stderr: o.Stderr, Tools: tools, Bound: true,
		Permission: &agent.Permission{Allow: opencode.PolicyNames(tools), Reason: in.denial()},
	})
	return r, r.Close, nil // the server that has read a session
}

// mcpConfig writes the servers to a file that only we can read.
func mcpConfig(servers map[string]MCPServer) (path string, err error) {
	all := map[string]MCPServer{}
	for name, s := range servers {
		s.Type = s.kind() // Claude Code does not guess it
		all[name] = s
	}
	data, err := json.Marshal(map[string]any{"mcpServers": all})
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "teambridge-mcp-*.json")
	if err != nil {
		return "", fmt.Errorf("query: %w", err)
	}
	_, err = f.Write(data)
	if err = cmp.Or(err, f.Close()); err != nil {
		_ = os.Remove(f.Name()) // it is of no use
		return "", fmt.Errorf("query: %w", err)
	}
	return f.Name(), nil
}

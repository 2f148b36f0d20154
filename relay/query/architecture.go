package query

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/runtimes"
	"teambridge/teams"
)

// Architectures returns the names of the kinds of agents.
func Architectures() []string { return runtimes.Names() }

func (in Input) architecture() (runtimes.Kind, error) {
	kind, ok := runtimes.Find(in.Architecture)
	if !ok {
		return kind, invalid("architecture", "is %.40q, must be one of %s", in.Architecture, strings.Join(Architectures(), ", "))
	}
	return kind, nil
}

// mode returns the agent's initial mode. The input takes precedence over settings in the command.
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

// denial returns the reason for denying a tool.
func (in Input) denial() string {
	if len(in.Tools) == 0 {
		return agent.Nobody
	}
	return agent.Nobody + " These tools may be used: " + strings.Join(in.Tools, ", ")
}

// open returns the runtime for the input. done removes its temporary files and servers.
func (q *query) open(ctx context.Context, dir string) (r agent.Runtime, done func() error, err error) {
	in, o := q.in, q.client.options
	kind, err := in.architecture()
	if err != nil {
		return nil, nil, err
	}
	l := runtimes.Launch{
		Settings: ledger.Relay{Runtime: kind.Name, Command: o.OpenCode, Dir: dir, Profile: in.Profile},
		State:    o.State, Env: o.Env, Stderr: o.Stderr, Tools: in.Tools, Bound: true, Permission: &agent.Permission{Reason: in.denial()},
	}
	if kind.Name == runtimes.Claude || in.Profile != "" {
		if l.Settings.Root, err = teams.Find(o.ClaudeRoot, o.lookup); err != nil {
			return nil, nil, err
		}
	}
	if kind.Name == runtimes.ACP {
		if l.Settings.Command = o.ACP; kind.NeedsCommand && len(o.ACP) == 0 {
			return nil, nil, invalid("architecture", "is acp, which needs the command of an agent")
		}
		l.Settings.Runtime = in.Architecture
		if err := runtimes.Check(&l.Settings); err != nil {
			return nil, nil, err
		}
	}
	if kind.Name == runtimes.Claude {
		if l.Settings.Command = o.Claude; len(o.Claude) == 0 {
			l.Settings.Command = []string{runtimes.Claude}
		}
		if o.ClaudeRoot != "" {
			if l.Env == nil {
				l.Env = os.Environ()
			}
			l.Env = append(slices.Clone(l.Env), "CLAUDE_CONFIG_DIR="+l.Settings.Root)
		}
	} else if l.State == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, nil, fmt.Errorf("query: a state directory: %w", err)
		}
		l.State = filepath.Join(cache, "teambridge")
	}
	if len(in.MCPServers) > 0 {
		// In a file, because every user can read the command line of a process.
		if l.MCPConfig, err = mcpConfig(in.MCPServers); err != nil {
			return nil, nil, err
		}
	}
	r, err = l.Runtime(ctx)
	return r, func() (err error) {
		if l.MCPConfig != "" {
			err = os.Remove(l.MCPConfig)
		}
		if c, ok := r.(io.Closer); ok {
			err = errors.Join(err, c.Close()) // the server that was started to read a session
		}
		return err
	}, err
}

// mcpConfig writes the servers to a file that only this user can read.
func mcpConfig(servers map[string]MCPServer) (path string, err error) {
	all := map[string]MCPServer{}
	for name, s := range servers {
		s.Type = s.kind() // Claude Code requires it
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
		_ = os.Remove(f.Name()) // the file is incomplete
		return "", fmt.Errorf("query: %w", err)
	}
	return f.Name(), nil
}

package opencode

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/process"
	"teambridge/teams/atomicfile"
)

// The permission modes, by Claude Code's names.
const (
	modeDefault = "default"
	modeEdits   = "acceptEdits"
	modePlan    = "plan"
	modeBypass  = "bypassPermissions"
)

// The agents of our sessions: two of OpenCode's, and one of ours. The user's configuration cannot change the
// prompt and rules of ours.
const (
	agentBuild = "build"
	agentPlan  = "plan"
	agentOurs  = "teambridge"
)

// config is our addition to the user's OpenCode configuration. The last matching rule wins; rules have this
// order: OpenCode's, these, the user's, those of our agent. In each object "*" sorts first.
type config struct {
	Permission map[string]any      `json:"permission"`
	Agent      map[string]ourAgent `json:"agent,omitempty"`
}

type ourAgent struct {
	Mode       string         `json:"mode"`
	Prompt     string         `json:"prompt,omitempty"`
	Permission map[string]any `json:"permission,omitempty"`
}

// checkMode returns an error if the server cannot have an agent in this mode.
func (o Options) checkMode(m mode.Mode) error {
	m.Model = mode.Setting[string]{}
	if o.URL != "" && o.Profile.Name != "" {
		return fmt.Errorf("opencode: a server that is already running takes no profile: %w", agent.ErrRefused)
	}
	if o.URL != "" && m.WithoutDefaults() != (mode.Mode{}) {
		return fmt.Errorf("opencode: a server that is already running takes a model, but no other setting: %w", agent.ErrRefused)
	}
	if _, ok := m.FallbackModel.Value(); ok {
		return fmt.Errorf("opencode: OpenCode has no fallback model: %w", agent.ErrRefused)
	}
	switch p, _ := m.PermissionMode.Value(); p {
	case "", modeDefault, modeEdits, modePlan, modeBypass:
		return nil
	default:
		return fmt.Errorf("opencode: there is no permission mode %.40q; the modes are %s, %s, %s and %s: %w",
			p, modeDefault, modeEdits, modePlan, modeBypass, agent.ErrRefused)
	}
}

// harmless returns rules that allow the actions without effects: they change nothing, and send nothing off
// the machine.
func harmless() map[string]any {
	rules := map[string]any{"*": "ask", "read": map[string]string{"*": "allow", "*.env": "ask", "*.env.*": "ask", "*.env.example": "allow"}}
	for _, action := range []string{"glob", "grep", "list", "lsp", "skill", "todoread", "todowrite", "question", "plan_enter", "plan_exit"} {
		rules[action] = "allow"
	}
	return rules
}

// configOf returns the configuration for a mode, and the agent to use. OpenCode's default allows everything.
// This configuration requires permission for each action that changes something or leaves the machine, unless
// the mode or the user's own configuration allows it.
func (o Options) configOf(m mode.Mode) (config, string) {
	c := config{Permission: harmless()}
	name, ours := agentBuild, ourAgent{Mode: "primary"}
	permissionMode, _ := m.PermissionMode.Value()
	switch permissionMode {
	case modeEdits:
		c.Permission["edit"] = "allow"
	case modePlan:
		name, ours.Permission = agentPlan, harmless()
		ours.Permission["edit"], ours.Permission["plan_exit"] = "deny", "deny"
	case modeBypass:
		c.Permission = map[string]any{"*": "allow"}
	}
	allowed, _ := m.AllowedTools.Value()
	for _, t := range allowed {
		action, pattern := toolOf(t)
		setRule(c.Permission, action, pattern, "allow")
	}
	if prompt, ok := m.CustomSystemPrompt.Value(); ok {
		name, ours.Prompt = agentOurs, prompt
	} else if o.profile.Prompt != "" {
		name, ours.Prompt = agentOurs, o.profile.Prompt
	}
	if o.profile.Tools != nil || len(o.profile.Disallowed) > 0 {
		if name = agentOurs; ours.Permission == nil {
			ours.Permission = maps.Clone(c.Permission)
		}
		limitTools(ours.Permission, o.profile)
	}
	disallowed, _ := m.DisallowedTools.Value()
	for _, t := range disallowed {
		if name = agentOurs; ours.Permission == nil {
			ours.Permission = map[string]any{}
		}
		action, pattern := toolOf(t)
		setRule(ours.Permission, action, pattern, "deny")
	}
	if name != agentBuild {
		c.Agent = map[string]ourAgent{name: ours}
	}
	return c, name
}

// setRule adds a rule about a tool. A pattern sorts after "*", so its rule wins.
func setRule(rules map[string]any, name, pattern, effect string) {
	if pattern == "*" {
		rules[name] = effect
		return
	}
	switch old := rules[name].(type) {
	case map[string]string:
		old[pattern] = effect
	case string:
		rules[name] = map[string]string{"*": old, pattern: effect}
	default:
		rules[name] = map[string]string{pattern: effect}
	}
}

// tools maps Claude Code's tools to OpenCode's names.
var tools = map[string]string{
	"Write": "edit", "MultiEdit": "edit", "NotebookEdit": "edit", "Agent": "task", "AskUserQuestion": "question", "LS": "list",
}

// toolOf parses a tool in the notation of OpenCode or Claude Code, with or without a pattern in parentheses.
func toolOf(t string) (name, pattern string) {
	name, pattern, _ = strings.Cut(strings.TrimSuffix(t, ")"), "(")
	if pattern == "" {
		pattern = "*"
	}
	if known, ok := tools[name]; ok {
		return known, pattern
	}
	if mcp, ok := strings.CutPrefix(name, "mcp__"); ok {
		return strings.ReplaceAll(mcp, "__", "_"), pattern
	}
	return strings.ToLower(name), pattern
}

// configDir makes the configuration directory for a mode. It replaces the user's directory, and links all
// other files from there. A directory with the same content is reused, because OpenCode installs packages in
// it.
func (o Options) configDir(m mode.Mode) (string, error) {
	user := o.userConfig()
	c, _ := o.configOf(m)
	ours, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("opencode: the configuration: %w", err)
	}
	rules, err := os.ReadFile(filepath.Join(user, "AGENTS.md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("opencode: %w", err)
	}
	asked, _ := m.AppendSystemPrompt.Value()
	for _, added := range []string{o.Instructions, asked} {
		if added != "" {
			rules = fmt.Appendf(rules, "\n\n%s\n", added)
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", user, ours, rules))
	dir := filepath.Join(o.State, "opencode", "config", hex.EncodeToString(sum[:12]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("opencode: %w", err)
	}
	now := time.Now()
	if err := errors.Join(os.Chtimes(dir, now, now), linkAll(user, dir)); err != nil {
		return "", fmt.Errorf("opencode: %w", err)
	}
	for _, parent := range []string{filepath.Dir(dir), o.marksDir()} {
		if err := removeUnused(parent, now.Add(-keepUnused)); err != nil {
			return "", fmt.Errorf("opencode: %w", err)
		}
	}
	files := map[string][]byte{"opencode.json": ours} // OpenCode reads it before opencode.jsonc
	if len(rules) > 0 {
		files["AGENTS.md"] = rules
	}
	for name, data := range files {
		path := filepath.Join(dir, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
			continue
		}
		if err := atomicfile.Write(path, data); err != nil {
			return "", fmt.Errorf("opencode: %w", err)
		}
	}
	return dir, nil
}

// keepUnused is how long files in the state directory are kept after their last use.
const keepUnused = 90 * 24 * time.Hour

// removeUnused removes files that were last used before a time.
func removeUnused(parent string, before time.Time) error {
	entries, err := os.ReadDir(parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has removed it
		} else if err != nil {
			return err
		}
		if info.ModTime().Before(before) {
			if err := os.RemoveAll(filepath.Join(parent, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// linkAll links the user's files into our directory, except those that we write ourselves.
func linkAll(user, dir string) error {
	entries, err := os.ReadDir(user)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	links := map[string]string{}
	for _, e := range entries {
		switch name := e.Name(); name {
		case "AGENTS.md", ".gitignore":
		case "opencode.json", "opencode.jsonc": // OpenCode reads both as JSON with comments
			if _, taken := links["opencode.jsonc"]; taken {
				return fmt.Errorf("%s has both opencode.json and opencode.jsonc; make one of them", user)
			}
			links["opencode.jsonc"] = name
		default:
			links[name] = name
		}
	}
	for name, target := range links {
		path, target := filepath.Join(dir, name), filepath.Join(user, target)
		if old, err := os.Readlink(path); err == nil && old == target {
			continue
		}
		if err := os.Symlink(target, path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// userConfig returns OpenCode's default configuration directory.
func (o Options) userConfig() string {
	env := func(name string) string {
		value, _ := process.Lookup(o.env(), name)
		return value
	}
	if dir := env("OPENCODE_CONFIG_DIR"); dir != "" {
		return dir
	}
	if dir := env("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "opencode")
	}
	home := cmp.Or(env("HOME"), env("USERPROFILE"))
	return filepath.Join(home, ".config", "opencode")
}

package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"teambridge/teams/rawjson"
)

// Input is a prompt, and how to run the agent. A zero field means the default.
type Input struct {
	// Prompt is the first message to the agent. It may be empty if StreamingInput is set.
	Prompt string `json:"prompt"`
	// Architecture is the kind of agent, one of [Architectures]: claude, which is the default, opencode, acp
	// for any program that speaks the Agent Client Protocol, or codex, gemini or qwen.
	Architecture string `json:"architecture,omitempty"`
	// Model is the name of a model that the kind of agent knows.
	Model string `json:"model,omitempty"`
	// SessionID is the session to continue; empty for a new one.
	SessionID string `json:"sessionId,omitempty"`
	// Cwd is the directory that the agent works in; empty: the current directory of this process.
	Cwd string `json:"cwd,omitempty"`
	// MCPServers are started in addition to the agent's configured ones. They are refused for opencode, which
	// gives sessions no tools of MCP servers (1.18.33).
	MCPServers map[string]MCPServer `json:"mcpServers,omitempty"`
	// Tools are the names of all tools of the agent, in the spelling of its kind, such as Read for claude and
	// read for opencode. The agent may use them without asking, except where only a person can decide, as on
	// any tool in plan mode. Nil means the default tools; uses that the permission mode leaves open are then
	// denied.
	//
	// Claude Code gets the list as its flag --tools, which concerns built-in tools, and the list also decides
	// its permission requests. Tools of MCP servers stay visible, but uses of unlisted ones are denied.
	// OpenCode gets rules that allow the listed tools and deny all others, which hides these from the model.
	// The rule edit covers write and apply_patch, and allows them, too.
	Tools []string `json:"tools,omitzero"`
	// Profile is the name of a profile with a prompt, tools and a model for the agent; see package profile.
	// It excludes Tools. Uses of its tools that need permission are denied.
	Profile string `json:"profile,omitempty"`
	// PermissionMode is a permission mode of the kind of agent; empty: default.
	PermissionMode string `json:"permissionMode,omitempty"`
	// StreamingInput means that messages follow the prompt.
	StreamingInput bool `json:"streamingInput,omitempty"`
}

// MCPServer provides further tools. It is a program that the agent starts, or a URL, in the form of Claude
// Code's .mcp.json.
type MCPServer struct {
	Type    string            `json:"type,omitempty"` // stdio, http or sse; empty: stdio, or http with a URL
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Message is a further message to the agent.
type Message struct {
	Text string
}

// InputError describes the fault of an [Input] or a [Message].
type InputError struct {
	Key string // the JSON key, with dots between levels; empty for the whole
	Err error
}

func (e *InputError) Error() string {
	if e.Key == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%.80q %v", e.Key, e.Err)
}

func (e *InputError) Unwrap() error { return e.Err }

func invalid(key, format string, args ...any) error {
	return &InputError{Key: key, Err: fmt.Errorf(format, args...)}
}

// ParseInput parses an input from a JSON object. It refuses unknown keys, repeated keys, and values of the
// wrong type, because a misspelled key could let an agent do more than intended. The error is an
// *[InputError] that names the key.
func ParseInput(data []byte) (Input, error) {
	var in Input
	servers := map[string]json.RawMessage{}
	err := parse("", data, []field{
		{"prompt", &in.Prompt}, {"architecture", &in.Architecture}, {"model", &in.Model}, {"sessionId", &in.SessionID}, {"cwd", &in.Cwd},
		{"mcpServers", &servers}, {"tools", &in.Tools}, {"profile", &in.Profile}, {"permissionMode", &in.PermissionMode}, {"streamingInput", &in.StreamingInput},
	})
	if err != nil {
		return Input{}, err
	}
	for name, value := range servers {
		if in.MCPServers == nil {
			in.MCPServers = map[string]MCPServer{}
		}
		var s MCPServer
		if err := parse("mcpServers."+name, value, []field{
			{"type", &s.Type}, {"command", &s.Command}, {"args", &s.Args}, {"env", &s.Env}, {"url", &s.URL}, {"headers", &s.Headers},
		}); err != nil {
			return Input{}, err
		}
		in.MCPServers[name] = s
	}
	return in, in.check()
}

// ParseMessage parses a message from a JSON object {"prompt": "…"} or {"text": "…"}, as strictly as
// [ParseInput].
func ParseMessage(data []byte) (Message, error) {
	var prompt, text *string
	if err := parse("", data, []field{{"prompt", &prompt}, {"text", &text}}); err != nil {
		return Message{}, err
	}
	switch {
	case prompt == nil && text == nil, prompt != nil && text != nil:
		return Message{}, invalid("", "a message has one of the keys \"prompt\" and \"text\"")
	case prompt == nil:
		prompt = text
	}
	if strings.TrimSpace(*prompt) == "" {
		return Message{}, invalid("", "the message is blank")
	}
	return Message{Text: *prompt}, nil
}

// field is a key of an object, and a pointer to its value.
type field struct {
	key string
	to  any
}

// parse decodes a JSON object. at is the path of the object, or empty.
func parse(at string, data []byte, fields []field) error {
	path := func(key string) string { return strings.TrimPrefix(at+"."+key, ".") }
	if inexact, ok := errors.AsType[*rawjson.InexactError](rawjson.Exact(data)); ok {
		return invalid(path(inexact.Path), "%s", inexact.Reason)
	}
	var object json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return invalid(at, "is not one JSON object: %w", err)
	}
	if rawjson.Kind(object) != '{' {
		return invalid(at, "is %s, must be an object", rawjson.Word(object))
	}
	members, err := rawjson.Fields(object)
	if err != nil {
		return invalid(at, "%w", err)
	}
	for _, m := range members {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == m.Name })
		if i < 0 {
			var known []string
			for _, f := range fields {
				known = append(known, f.key)
			}
			return invalid(path(m.Name), "is not a key; there are %s", strings.Join(known, ", "))
		}
		if err := assign(m.Value.Of(object), fields[i].to); err != nil {
			return &InputError{Key: path(m.Name), Err: err}
		}
	}
	return nil
}

// assign decodes a value. It refuses null, which encoding/json accepts for any type.
func assign(value json.RawMessage, to any) error {
	want := "an object"
	switch to.(type) {
	case *string, **string:
		want = "a text"
	case *bool:
		want = "a boolean"
	case *[]string:
		want = "a list of texts"
	case *map[string]string:
		want = "an object of texts"
	}
	err := json.Unmarshal(value, to)
	if errors.As(err, new(*json.UnmarshalTypeError)) || rawjson.Kind(value) == 'n' || hasNull(value, to) {
		return fmt.Errorf("is %s, must be %s", rawjson.Word(value), want)
	}
	return err
}

// hasNull reports whether a list or an object of texts contains null.
func hasNull(value json.RawMessage, to any) bool {
	var list []*string
	var object map[string]*string
	switch to.(type) {
	case *[]string:
		return json.Unmarshal(value, &list) == nil && slices.Contains(list, nil)
	case *map[string]string:
		return json.Unmarshal(value, &object) == nil && slices.Contains(slices.Collect(maps.Values(object)), nil)
	}
	return false
}

// check returns the fault of an input, as an *[InputError].
func (in Input) check() error {
	// For callers that did not use ParseInput: JSON would change such a text.
	for key, text := range map[string]string{"prompt": in.Prompt, "model": in.Model, "cwd": in.Cwd, "profile": in.Profile} {
		if !utf8.ValidString(text) {
			return invalid(key, "is not valid UTF-8")
		}
	}
	if strings.TrimSpace(in.Prompt) == "" && (!in.StreamingInput || in.Prompt != "") {
		return invalid("prompt", "is missing or blank")
	}
	a, err := in.architecture()
	if err != nil {
		return err
	}
	if a.NoList != "" && (in.Profile != "" || in.Tools != nil) {
		return invalid(map[bool]string{true: "tools", false: "profile"}[in.Tools != nil], "cannot be given: %s", a.NoList)
	}
	if in.Profile != "" && in.Tools != nil {
		return invalid("tools", "is not for an agent with a profile, which has tools of its own")
	}
	if in.PermissionMode != "" && !slices.Contains(a.Modes, in.PermissionMode) {
		return invalid("permissionMode", "is %.40q, must be one of %s", in.PermissionMode, strings.Join(a.Modes, ", "))
	}
	if _, err := uuid.Parse(in.SessionID); in.SessionID != "" && err != nil {
		return invalid("sessionId", "is %.60q, must be a UUID", in.SessionID)
	}
	for _, tool := range in.Tools {
		if !isName(tool) {
			return invalid("tools", "has %.60q, which is not the name of a tool", tool)
		}
	}
	if len(in.MCPServers) > 0 && a.NoMCP != "" {
		return invalid("mcpServers", "cannot be given: %s", a.NoMCP)
	}
	for name, s := range in.MCPServers {
		if !isName(name) {
			return invalid("mcpServers", "has %.60q, which is not a name: letters, digits, _ and -", name)
		}
		if err := s.check(); err != nil {
			return invalid("mcpServers."+name, "%w", err)
		}
	}
	_, err = in.dir()
	return err
}

// isName reports whether s can be the name of a tool or a server. A rule, such as "Bash(git *)", or a pattern
// cannot.
func isName(s string) bool {
	return s != "" && s[0] != '-' && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

func (s MCPServer) check() error {
	switch s.kind() {
	case "stdio":
		if s.Command == "" || s.URL != "" || s.Headers != nil {
			return errors.New("is of type stdio: it must have a command, and may have args and env")
		}
		return nil
	case "http", "sse":
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || s.Command != "" || s.Args != nil || s.Env != nil {
			return fmt.Errorf("is of type %s: it must have a url, and may have headers", s.kind())
		}
		return nil
	}
	return fmt.Errorf("is of type %.40q, must be stdio, http or sse", s.Type)
}

func (s MCPServer) kind() string {
	switch {
	case s.Type != "":
		return s.Type
	case s.URL != "":
		return "http"
	}
	return "stdio"
}

// dir returns the directory that the agent works in, without symbolic links, because agents keep sessions
// under that path.
func (in Input) dir() (string, error) {
	dir, err := filepath.Abs(in.Cwd)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", invalid("cwd", "cannot be used: %w", err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", invalid("cwd", "is %.200q, which is not a directory", in.Cwd)
	}
	return dir, nil
}

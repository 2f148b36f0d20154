package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// serveFiles is an MCP server on standard input and output. Its only tool, write, makes a file.
func serveFiles() {
	type object = map[string]any
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ProtocolVersion string
				Arguments       struct{ Path string }
			}
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := object{}
		switch m.Method {
		case "initialize":
			result = object{"protocolVersion": m.Params.ProtocolVersion, "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "files", "version": "1"}}
		case "tools/list":
			result = object{"tools": []object{{"name": "write", "description": "w", "inputSchema": object{"type": "object", "properties": object{"path": object{"type": "string"}}}}}}
		case "tools/call":
			text := "made"
			if err := os.WriteFile(m.Params.Arguments.Path, nil, 0o600); err != nil {
				text = err.Error()
			}
			result = object{"content": []object{{"type": "text", "text": text}}}
		}
		data, err := json.Marshal(object{"jsonrpc": "2.0", "id": m.ID, "result": result})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", data)
	}
}

// put writes a file of the user or of the project.
func (h *headless) put(path, text string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// project writes a file of the agent's directory.
func (h *headless) project(name, text string) {
	h.t.Helper()
	h.put(filepath.Join(h.home.Work, name), text)
}

// distrust makes the agent's directory one that the user never said they trust.
func (h *headless) distrust() {
	h.t.Helper()
	path := filepath.Join(h.home.Root, ".claude.json")
	data, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		h.t.Fatal(err)
	}
	config["projects"] = map[string]any{}
	if data, err = json.Marshal(config); err != nil {
		h.t.Fatal(err)
	}
	h.put(path, string(data))
}

// touches are calls of tools that make files in the agent's directory, by the names of the files.
func (h *headless) touches(prefix string) map[string]string {
	path := func(name string) string { return filepath.Join(h.home.Work, "made-"+prefix+name) }
	return map[string]string{
		"bash":  bashLine("touch " + path("bash")),
		"write": standin.CallLine("Write", map[string]string{"file_path": path("write"), "content": "x"}),
	}
}

// made lists the files that tools made, and removes them.
func (h *headless) made() (names []string) {
	h.t.Helper()
	paths, err := filepath.Glob(filepath.Join(h.home.Work, "made-*"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, p := range paths {
		names = append(names, strings.TrimPrefix(filepath.Base(p), "made-"))
		if err := os.Remove(p); err != nil {
			h.t.Fatal(err)
		}
	}
	return names
}

// types gives the agent each text as a message of its own, with a mode if that is not empty.
func (h *headless) types(mode string, texts map[string]string) {
	h.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		m := map[string]any{"text": texts[name]}
		if mode != "" {
			m["mode"] = json.RawMessage(mode)
		}
		data, err := json.Marshal(m)
		if err != nil {
			h.t.Fatal(err)
		}
		h.typing(string(data))
	}
}

// Nothing but a person gives a real agent more permissions than it asks for: no setting of the project, of a project that
// nobody trusts, or of the user, however the agent is started. The mode that it reports is shown.
func TestRealPermissionMode(t *testing.T) {
	t.Parallel()
	settings := map[string]string{
		"no setting": "", "acceptEdits": "", "bypassPermissions": "", "auto": "",
		"bypassPermissions of the user": filepath.Join("claude", "settings.json"),
	}
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		for name, path := range settings {
			t.Run(name, func(t *testing.T) {
				h := newHeadless(t, v, nil)
				h.command = append(standin.Require(t, v), "--model", "sonnet")
				mode, _, _ := strings.Cut(name, " ")
				switch text := fmt.Sprintf(`{"permissions": {"defaultMode": %q}}`, mode); {
				case path != "":
					h.put(filepath.Join(h.home.Dir, path), text)
				case mode != "no":
					h.project(".claude/settings.json", text)
					h.distrust()
				}
				ctx := deadline(t, 4*time.Minute)
				l := h.ledger()
				want := func(way, mode string, n int, files ...string) {
					t.Helper()
					all := h.settled(ctx, l, n)
					if got := h.made(); !slices.Equal(got, files) {
						t.Errorf("%s: made %q, want %q\n%s", way, got, files, h)
					}
					for _, d := range all[n-2:] {
						if got := permissionModeOf(t, h, d.Frame); got != mode || d.State != ledger.Done {
							t.Errorf("%s: %s (%s) in permission mode %s, want done in %s", way, d.State, d.Reason, got, mode)
						}
					}
					if out := h.must("status", "--team", h.team); !strings.Contains(out, "PERMISSIONS") || !strings.Contains(out, " "+mode) {
						t.Errorf("%s: status prints %s, want the permission mode %s", way, out, mode)
					}
				}
				h.start("--output", "raw")
				h.types("", h.touches("new-"))
				want("run", "default", 2)
				h.kill()
				h.killAgent(ctx, l)
				h.start("--output", "raw")
				h.types("", h.touches("resumed-"))
				want("resumed", "default", 4)
				h.types(`{"permissionMode": "acceptEdits"}`, h.touches("wide-"))
				want("by a message", "acceptEdits", 6, "wide-bash", "wide-write")
				h.types(`{"permissionMode": null}`, h.touches("back-"))
				want("taken back", "default", 8)
				if status := h.finish(ctx); status != 0 {
					t.Errorf("run ended with %d\n%s", status, h)
				}
			})
		}
	})
}

// Plan mode holds in a project that allows everything: by rules, by subagents with modes of their own, by a sandbox, and by
// the tools of MCP servers.
func TestRealPlanModeInAHostileProject(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		for _, flags := range [][]string{nil, {"--settings", `{"permissions": {"allow": ["Bash"]}}`}} {
			h := newHeadless(t, v, nil)
			h.command = append(append(standin.Require(t, v), "--model", "sonnet", "--allowedTools", "Bash,Write"), flags...)
			h.project(".claude/settings.json", `{"permissions": {"allow": ["Bash", "Write", "Edit", "Monitor", "mcp__files"], "defaultMode": "bypassPermissions"},
				"enableAllProjectMcpServers": true, "useAutoModeDuringPlan": true, "sandbox": {"enabled": true, "autoAllowBashIfSandboxed": true}}`)
			h.project(".mcp.json", fmt.Sprintf(`{"mcpServers": {"files": {"command": %q, "env": {%q: "1"}}}}`, executable(t), envServesFiles))
			file := func(name string) string { return filepath.Join(h.home.Work, "made-"+name) }
			calls := h.touches("")
			calls["mcp"] = standin.CallLine("mcp__files__write", map[string]string{"path": file("mcp")})
			calls["monitor"] = standin.CallLine("Monitor", map[string]any{"command": "touch " + file("monitor"), "description": "d", "timeout_ms": 3000, "persistent": false})
			for _, mode := range []string{"acceptEdits", "bypassPermissions"} {
				h.project(".claude/agents/"+mode+".md", "---\nname: "+mode+"\ndescription: d\npermissionMode: "+mode+"\n---\nYou do things.\n")
				for name, call := range h.touches(mode + "-") {
					calls[mode+name] = standin.CallLine("Agent", map[string]string{"description": "d", "subagent_type": mode, "prompt": call})
				}
			}
			ctx := deadline(t, 4*time.Minute)
			l := h.ledger()
			h.start("--output", "raw", "--permissions", "allow=*")
			h.types(`{"permissionMode": "plan"}`, calls)
			all := h.settled(ctx, l, len(calls))
			if status := h.finish(ctx); status != 0 {
				t.Errorf("run ended with %d\n%s", status, h)
			}
			if made := h.made(); len(made) > 0 {
				t.Errorf("flags %q: in plan mode it made %q\n%s", flags, made, h)
			}
			for i, d := range all {
				if mode := permissionModeOf(t, h, d.Frame); mode != "plan" || d.State != ledger.Done {
					t.Errorf("message %d: %s (%s) in permission mode %s", i+1, d.State, d.Reason, mode)
				}
			}
		}
	})
}

// A session that moves from the terminal has the default at its relay until a person has used it at the terminal, and then
// the mode that was shown there.
func TestRealPermissionModeOfASessionThatMoves(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		s := newSeat(t, v, nil, "--model", "sonnet")
		s.project(".claude/settings.json", `{"permissions": {"defaultMode": "acceptEdits"}}`)
		ctx := deadline(t, 4*time.Minute)
		s.sitDown()
		s.at(ctx, ledger.AtTerminal)
		n := 0
		moved := func(when, mode string, files ...string) {
			t.Helper()
			for _, name := range []string{"bash", "write"} {
				s.prompt(ctx, s.touches(when + "-")[name])
			}
			s.at(ctx, ledger.AtRelay)
			n += 2
			for _, d := range s.settled(ctx, s.l, n)[n-2:] {
				if got := permissionModeOf(t, s.headless, d.Frame); got != mode || d.State != ledger.Done {
					t.Errorf("%s: %s (%s) in permission mode %s, want done in %s", when, d.State, d.Reason, got, mode)
				}
			}
			if made := s.made(); !slices.Equal(made, files) {
				t.Errorf("%s: made %q, want %q\n%s", when, made, files, s)
			}
		}
		moved("unused", "default")
		s.key(ctx)
		s.at(ctx, ledger.AtTerminal)
		s.enters(ctx, "hello [1]")
		s.answered(ctx, "[1]")
		moved("used", "acceptEdits", "used-bash", "used-write")
		s.key(ctx)
		s.at(ctx, ledger.AtTerminal)
		s.ends(ctx)
	})
}

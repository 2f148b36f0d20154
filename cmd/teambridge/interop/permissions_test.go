package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

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

// put writes a file below the home.
func (h *headless) put(path, text string) {
	h.t.Helper()
	must(h.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(h.t, os.WriteFile(path, []byte(text), 0o600))
}

// project writes a file in the agent's directory.
func (h *headless) project(name, text string) {
	h.t.Helper()
	h.put(filepath.Join(h.home.Work, name), text)
}

// distrust makes the agent's directory one that the user has not trusted.
func (h *headless) distrust() {
	h.t.Helper()
	path := filepath.Join(h.home.Root, ".claude.json")
	data, err := os.ReadFile(path)
	must(h.t, err)
	var config map[string]any
	must(h.t, json.Unmarshal(data, &config))
	config["projects"] = map[string]any{}
	if data, err = json.Marshal(config); err != nil {
		h.t.Fatal(err)
	}
	h.put(path, string(data))
}

// touches returns calls of tools that make files in the agent's directory, by the names of the files.
func (h *headless) touches(prefix string) map[string]string {
	path := func(name string) string { return filepath.Join(h.home.Work, "made-"+prefix+name) }
	return map[string]string{
		"bash":  bashLine("touch " + path("bash")),
		"write": standin.CallLine("Write", map[string]string{"file_path": path("write"), "content": "x"}),
	}
}

// made returns the files that tools made, and removes them.
func (h *headless) made() (names []string) {
	h.t.Helper()
	paths, err := filepath.Glob(filepath.Join(h.home.Work, "made-*"))
	must(h.t, err)
	for _, p := range paths {
		names = append(names, strings.TrimPrefix(filepath.Base(p), "made-"))
		must(h.t, os.Remove(p))
	}
	return names
}

// types gives the agent each text as a message of its own, with a mode unless it is empty.
func (h *headless) types(mode string, texts map[string]string) {
	h.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		m := map[string]any{"text": texts[name]}
		if mode != "" {
			m["mode"] = json.RawMessage(mode)
		}
		data, err := json.Marshal(m)
		must(h.t, err)
		h.typing(string(data))
	}
}

// makes checks that tools have made exactly these files since the last check.
func (h *headless) makes(when string, files ...string) {
	h.t.Helper()
	if made := h.made(); !slices.Equal(made, files) {
		h.t.Errorf("%s: made %q, want %q\n%s", when, made, files, h)
	}
}

// doneIn checks that the agent was in a permission mode when it took these messages, and that they are done.
func (h *headless) doneIn(mode string, all ...ledger.Delivery) {
	h.t.Helper()
	for _, d := range all {
		if got := h.permissionMode(d.Frame); got != mode || d.State != ledger.Done {
			h.t.Errorf("%s: %s (%s) in permission mode %s, want done in %s", d.Raw, d.State, d.Reason, got, mode)
		}
	}
}

// permissionMode returns the mode in which the agent took a frame, from its transcript.
func (h *headless) permissionMode(frame string) (mode string) {
	h.t.Helper()
	session, _ := h.agent()
	path, err := h.transcript(session.ID).Path()
	must(h.t, err)
	_, err = standin.WaitFile(h.ctx, path, func(data []byte) bool {
		for line := range strings.Lines(string(data)) {
			var record struct{ UUID, PermissionMode string }
			if json.Unmarshal([]byte(line), &record) == nil && record.UUID == frame {
				mode = record.PermissionMode
				return true
			}
		}
		return false // some versions write it after the turn
	})
	if err != nil {
		h.t.Fatalf("the transcript has no frame %s: %v", frame, err)
	}
	return mode
}

// caller is a model that calls tools, one after the other, in answer to a request.
type caller struct {
	calls func(r standin.Request) []standin.Call

	mu   sync.Mutex
	left []standin.Call
}

func (c *caller) respond(ctx context.Context, r standin.Request) standin.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if calls := c.calls(r); calls != nil && !r.Side && len(r.Results) == 0 {
		c.left = calls
	}
	if r.Side || len(c.left) == 0 {
		return standin.Script(ctx, r)
	}
	next := c.left[0]
	c.left = c.left[1:]
	return standin.Answer{Calls: []standin.Call{next}}
}

// call returns a call of a tool.
func call(tool string, input any) standin.Call {
	data, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return standin.Call{Name: tool, Input: data}
}

// A tool call of a real agent is refused with a reason, allowed by the list, or answered by the person.
func TestRealRunPermissions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		permissions string
		allow       bool // the person's answer
		runs        bool
		told        string
	}{
		{"deny", false, false, "runs without a person"},
		{"allow=Read,Bash", false, true, ""},
		{"ask", true, true, ""},
		{"ask", false, false, "not today"},
	} {
		t.Run(fmt.Sprint(tc.permissions, " ", tc.allow), func(t *testing.T) {
			onSome(t, func(t *testing.T, v teams.Version) {
				h := newHeadless(t, v, nil)
				h.command = standin.Require(t, v)
				h.start("--permissions", tc.permissions)
				h.types("", map[string]string{"": h.touches("")["bash"]})
				if tc.permissions == "ask" {
					q := h.wait("asked", func(s saying) bool { return s.Permission != nil && s.Open }).Permission
					if q.Tool != "Bash" {
						t.Errorf("asked for %q", q.Tool)
					}
					h.typing(fmt.Sprintf(`{"permit": %q, "digest": %q, "allow": %t, "reason": %q}`, q.ID, q.Digest, tc.allow, tc.told))
				}
				h.wait("ended the turn", func(s saying) bool { return s.Result != nil })
				h.finish()
				if made := len(h.made()) == 1; made != tc.runs {
					t.Errorf("the tool ran: %t, want %t", made, tc.runs)
				}
				asked := slices.DeleteFunc(h.sayings(), func(s saying) bool { return s.Permission == nil || !s.Open })
				if (len(asked) == 1) != (tc.permissions == "ask") {
					t.Errorf("asked %+v", asked)
				}
				if tc.told != "" && !slices.ContainsFunc(h.home.API.Log(), func(r standin.Request) bool { return strings.Contains(strings.Join(r.Results, "\n"), tc.told) }) {
					t.Errorf("the agent was not told %q\n%s", tc.told, h)
				}
			})
		})
	}
}

// Only a person gives a real agent more permissions than the default: no setting does, of the project, of an
// untrusted project, or of the user, however the agent is started. status shows the mode that the agent reports.
func TestRealPermissionMode(t *testing.T) {
	settings := map[string]string{
		"no setting": "", "acceptEdits": "", "bypassPermissions": "", "auto": "",
		"bypassPermissions of the user": filepath.Join("claude", "settings.json"),
	}
	onSome(t, func(t *testing.T, v teams.Version) {
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
				h.start("--output", "raw")
				for i, step := range []struct {
					prefix, typed, mode string
					files               []string
				}{
					{"new-", "", "default", nil},
					{"resumed-", "", "default", nil},
					{"wide-", `{"permissionMode": "acceptEdits"}`, "acceptEdits", []string{"wide-bash", "wide-write"}},
					{"back-", `{"permissionMode": null}`, "default", nil},
				} {
					if step.prefix == "resumed-" {
						h.kill()
						h.killAgent()
						h.start("--output", "raw")
					}
					h.types(step.typed, h.touches(step.prefix))
					all := h.settled(2*i + 2)
					h.makes(step.prefix, step.files...)
					h.doneIn(step.mode, all[2*i:]...)
					if out := h.must("status", "--team", h.team); !strings.Contains(out, "PERMISSIONS") || !strings.Contains(out, " "+step.mode) {
						t.Errorf("%s: status prints %s, want the permission mode %s", step.prefix, out, step.mode)
					}
				}
				h.finish()
			})
		}
	})
}

var try = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<try-(\d+)>`) })

// A real agent that tries to leave plan mode stays in it, and changes nothing, even if its command skips permissions
// and all its requests are allowed, after a message through the inbox, and after a kill of bridge and agent. Once a
// person ends plan mode, it may do everything again.
func TestRealPlanMode(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		var h *headless
		h = newHeadless(t, v, (&caller{calls: func(r standin.Request) []standin.Call {
			m := try().FindStringSubmatch(r.Text())
			if m == nil {
				return nil
			}
			made := filepath.Join(h.home.Work, "made-")
			return []standin.Call{
				call("ExitPlanMode", map[string]string{"plan": "# Plan"}),
				call("Bash", map[string]string{"command": "touch " + made + "bash-" + m[1], "description": "d"}),
				call("Write", map[string]string{"file_path": made + "write-" + m[1], "content": "x"}),
			}
		}}).respond)
		flags := []string{"--output", "raw", "--permissions", "allow=*"}
		h.start(flags...)
		h.types(`{"permissionMode": "plan"}`, map[string]string{"": "<try-1>"})
		h.settled(1)
		h.send("<try-2>")
		h.settled(2)
		h.kill()
		h.killAgent()
		h.start(flags...)
		h.send("<try-3>")
		h.settled(3)
		h.types(`{"permissionMode": null}`, map[string]string{"": "<try-4>"})
		all := h.settled(4)
		h.finish()
		h.makes("after plan mode alone", "bash-4", "write-4")
		h.doneIn("plan", all[:3]...)
		h.doneIn("bypassPermissions", all[3:]...)
	})
}

// Plan mode holds in a project that allows everything: by rules, by subagents with modes of their own, by a sandbox,
// and by the tools of MCP servers.
func TestRealPlanModeInAHostileProject(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
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
				for name, line := range h.touches(mode + "-") {
					calls[mode+name] = standin.CallLine("Agent", map[string]string{"description": "d", "subagent_type": mode, "prompt": line})
				}
			}
			h.start("--output", "raw", "--permissions", "allow=*")
			h.types(`{"permissionMode": "plan"}`, calls)
			all := h.settled(len(calls))
			h.finish()
			h.makes(fmt.Sprintf("flags %q", flags))
			h.doneIn("plan", all...)
		}
	})
}

// A session that moves from the terminal has the default mode at its relay until a person has used it at the
// terminal, and then the mode that was shown there.
func TestRealPermissionModeOfASessionThatMoves(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		s := newSeat(t, v, nil, "--model", "sonnet")
		s.project(".claude/settings.json", `{"permissions": {"defaultMode": "acceptEdits"}}`)
		s.sitDown()
		s.at(ledger.AtTerminal)
		n := 0
		moved := func(when, mode string, files ...string) {
			t.Helper()
			for _, name := range []string{"bash", "write"} {
				s.prompt(s.touches(when + "-")[name])
			}
			s.at(ledger.AtRelay)
			n += 2
			s.doneIn(mode, s.settled(n)[n-2:]...)
			s.makes(when, files...)
		}
		moved("unused", "default")
		s.key()
		s.at(ledger.AtTerminal)
		s.enters("hello [1]")
		s.answered("[1]")
		moved("used", "acceptEdits", "used-bash", "used-write")
		s.key()
		s.at(ledger.AtTerminal)
		s.ends()
	})
}

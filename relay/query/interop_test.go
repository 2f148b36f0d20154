package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/process"
	"teambridge/relay/query"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
	"teambridge/teams/errtest"
)

// The tests here run real agents of each kind, in several versions, against a stand-in for
// the model.

// realBench is a home with a real program.
type realBench struct {
	t       *testing.T
	home    *standin.Home
	options query.Options
	kind    string
}

var must = errtest.Must

// forEachReal runs a test with each kind of agent. Tests that depend on the version of Claude
// Code are in relay/claude.
func forEachReal(t *testing.T, respond standin.Responder, test func(*realBench)) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		b := &realBench{t: t, home: standin.NewHome(t, standin.StartAPI(t, respond)), kind: "claude"}
		t.Cleanup(b.gone) // after the clients are closed
		b.options = query.Options{Claude: standin.Require(t, v), Env: b.home.Env()}
		test(b)
	})
	t.Run("opencode", func(t *testing.T) {
		t.Parallel()
		b := &realBench{t: t, home: standin.NewHome(t, standin.StartAPI(t, respond)), kind: "opencode"}
		t.Cleanup(b.gone)
		b.options = query.Options{OpenCode: []string{b.home.OpenCode(t)}, Env: b.home.Env(), State: filepath.Join(b.home.Dir, "state")}
		test(b)
	})
}

func (b *realBench) client() *query.Client {
	b.t.Helper()
	c := query.New(b.options)
	b.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return c
}

// left returns the remaining processes of agents, as far as the system reports them.
func (b *realBench) left() (commands []string) {
	b.t.Helper()
	for _, pid := range process.FindByEnv("HOME=" + b.home.Dir) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		commands = append(commands, string(command))
	}
	return commands
}

func (b *realBench) gone() {
	b.t.Helper()
	if left := b.left(); left != nil {
		b.t.Errorf("processes are left: %q", left)
	}
}

func (b *realBench) input(prompt string) query.Input {
	return query.Input{Prompt: prompt, Architecture: b.kind, Cwd: b.home.Work}
}

// sums is a model that can add.
func sums(ctx context.Context, r standin.Request) standin.Answer {
	for question, answer := range map[string]string{"What is 2 + 2?": "4", "And 3 + 3?": "6", "And 4 + 4?": "8"} {
		if !r.Side && r.Has(question) {
			return standin.Answer{Text: answer}
		}
	}
	return standin.Script(ctx, r)
}

// The examples: a question, a follow-up through the channel, and a session that is resumed.
func TestRealQuery(t *testing.T) {
	forEachReal(t, sums, asksAndGoesOn)
	t.Run("qwen", func(t *testing.T) {
		t.Parallel()
		b := &realBench{t: t, home: standin.NewHome(t, standin.StartAPI(t, sums)), kind: "qwen"}
		t.Cleanup(b.gone)
		b.options = query.Options{ACP: append(b.home.Qwen(t, nil), "--acp"), Env: b.home.Env(), State: filepath.Join(b.home.Dir, "state")}
		asksAndGoesOn(b)
	})
}

func asksAndGoesOn(b *realBench) {
	t := b.t
	in := b.input("What is 2 + 2?")
	in.StreamingInput = true
	client := b.client()
	first := collect(t, client.Query(t.Context(), in, messages("And 3 + 3?")))
	first.is(t, query.Completed, "6")
	if got := strings.Join(first.texts, "|"); got != "user: What is 2 + 2?|agent: 4|completed|user: And 3 + 3?|agent: 6|completed" {
		t.Errorf("got %s", got)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	in = b.input("And 4 + 4?")
	in.SessionID = first.SessionID
	second := collect(t, b.client().Query(t.Context(), in, nil))
	if second.is(t, query.Completed, "8"); second.SessionID != first.SessionID {
		t.Errorf("session %s, want %s", second.SessionID, first.SessionID)
	}
	if got := strings.Join(second.texts, "|"); got != "user: And 4 + 4?|agent: 8|completed" {
		t.Errorf("got %s", got)
	}
	for _, question := range []string{"What is 2 + 2?", "And 3 + 3?", "And 4 + 4?"} {
		if n := b.home.API.Count(standin.Any, question); n != 1 {
			t.Errorf("%s was given to the model %d times", question, n)
		}
	}
	in.SessionID = "3f3c58ee-33ff-467b-95ea-b5bde5dd1ce1"
	if got := collect(t, b.client().Query(t.Context(), in, nil)); !errors.Is(got.err, query.ErrNoSession) {
		t.Errorf("a session that is not there: %v", got.err)
	}
}

// Only the tools in the input are allowed, whatever the settings of the agent allow.
func TestRealQueryPermissions(t *testing.T) {
	forEachReal(t, nil, func(b *realBench) {
		t := b.t
		settings := `{"permissions":{"defaultMode":"bypassPermissions"}}`
		must(t, os.WriteFile(filepath.Join(b.home.Root, "settings.json"), []byte(settings), 0o600))
		c := b.client()
		made := filepath.Join(b.home.Work, "made")
		tool := map[string]string{"claude": "Bash", "opencode": "bash"}[b.kind]
		call := standin.CallLine(tool, map[string]string{"command": "touch made", "description": "d"})
		for _, test := range []struct {
			name, mode string
			tools      []string
			runs       bool
			told       string
		}{
			{"nobody is there", "", nil, false, "Nobody is there to allow this."},
			{"asked for", "", []string{tool}, true, ""},
			{"plan mode", "plan", []string{tool}, false, ""},
			{"another tool", "", []string{map[string]string{"claude": "Read", "opencode": "read"}[b.kind]}, false, ""},
			{"bypassPermissions", "bypassPermissions", nil, true, ""},
		} {
			in := b.input(call)
			in.PermissionMode, in.Tools = test.mode, test.tools
			before := len(b.home.API.Log())
			got := collect(t, c.Query(t.Context(), in, nil))
			if got.err != nil {
				t.Errorf("%s: %v", test.name, got.err)
			}
			_, err := os.Stat(made)
			if runs := err == nil; runs != test.runs {
				t.Errorf("%s: the tool was run: %t, want %t", test.name, runs, test.runs)
			}
			_ = os.Remove(made)
			var results, offered []string
			for _, r := range b.home.API.Log()[before:] {
				if results = append(results, r.Results...); !r.Side {
					offered = r.Tools
				}
			}
			// OpenCode does not pass the reason on.
			if b.kind == "claude" && !strings.Contains(strings.Join(results, "\n"), test.told) {
				t.Errorf("%s: the agent was told %q, want %q", test.name, results, test.told)
			}
			// A placeholder of Claude Code.
			offered = slices.DeleteFunc(offered, func(name string) bool { return name == "DeferredToolPlaceholder" })
			if test.tools != nil && !slices.Equal(offered, test.tools) {
				t.Errorf("%s: the agent has the tools %q, want %q", test.name, offered, test.tools)
			}
		}
		in := b.input("hello")
		in.Tools = []string{}
		// A call of a model without tools is a side call to the stand-in.
		if got := collect(t, c.Query(t.Context(), in, nil)); got.Status != query.Completed || len(b.home.API.Log()[len(b.home.API.Log())-1].Tools) > 0 {
			t.Errorf("no tools: got %+v", got)
		}
	})
}

// An interrupted query leaves no process, and its session can be resumed.
func TestRealQueryInterrupted(t *testing.T) {
	respond := func(ctx context.Context, r standin.Request) standin.Answer {
		if r.Has("[slow]") && !r.Has("[m-2]") {
			<-ctx.Done()
		}
		return standin.Script(ctx, r)
	}
	forEachReal(t, respond, func(b *realBench) {
		t := b.t
		c := b.client()
		in := b.input("hello [m-1]")
		in.SessionID = collect(t, c.Query(t.Context(), in, nil)).SessionID
		in.Prompt = "hello [slow]"
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		go func() {
			if _, err := b.home.API.Wait(ctx, func(r standin.Request) bool { return r.Has("[slow]") }); err == nil {
				cancel()
			}
		}()
		got := collect(t, c.Query(ctx, in, nil))
		if got.is(t, query.Interrupted, got.Text); !errors.Is(got.err, context.Canceled) {
			t.Errorf("got %v", got.err)
		}
		b.gone()
		in.Prompt = "go on [m-2]"
		if got := collect(t, c.Query(t.Context(), in, nil)); got.Status != query.Completed || !strings.Contains(got.Text, "go on [m-2]") {
			t.Errorf("got %+v, %v", got.Result, got.err)
		}
	})
}

// A server of OpenCode does not outlive a query that is killed.
func TestRealQueryKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere the system cannot do that")
	}
	t.Parallel()
	b := &realBench{t: t, home: standin.NewHome(t, standin.StartAPI(t, func(ctx context.Context, _ standin.Request) standin.Answer {
		<-ctx.Done()
		return standin.Answer{}
	})), kind: "opencode"}
	cmd := exec.Command(os.Args[0])
	cmd.Dir = b.home.Work
	cmd.Env = append(b.home.Env(), envAsk+"="+b.home.OpenCode(t))
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	_, err := b.home.API.Wait(t.Context(), func(r standin.Request) bool { return r.Has("[slow]") })
	must(t, errors.Join(err, cmd.Process.Kill()))
	_ = cmd.Wait() // the error of the kill
	for end := time.Now().Add(time.Minute); b.left() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("processes are left: %q", b.left())
		}
	}
}

// envAsk makes the test binary ask the OpenCode that it names.
const envAsk = "QUERY_TEST_ASK"

func ask(program string) {
	c := query.New(query.Options{OpenCode: []string{program}})
	for _, err := range c.Query(context.Background(), query.Input{Prompt: "hello [slow]", Architecture: "opencode"}, nil) {
		if err != nil {
			panic(err)
		}
	}
	os.Exit(0)
}

// The tools of an MCP server that the input has can be used if they are in the list.
func TestRealQueryMCP(t *testing.T) {
	forEachReal(t, nil, func(b *realBench) {
		t := b.t
		if b.kind == "opencode" {
			return // does not support them; see TestParseInput
		}
		in := b.input("")
		in.MCPServers = map[string]query.MCPServer{"echo": {Command: os.Args[0], Env: map[string]string{envMCP: "1"}}}
		in.Prompt = standin.CallLine("mcp__echo__say", map[string]string{"text": "hi"})
		results := func() string {
			var all []string
			for _, r := range b.home.API.Log() {
				all = append(all, r.Results...)
			}
			return strings.Join(all, "\n")
		}
		collect(t, b.client().Query(t.Context(), in, nil))
		if got := results(); strings.Contains(got, "it said hi") {
			t.Errorf("used without being in the list: %q", got)
		}
		in.Tools = []string{"mcp__echo__say"}
		if got := collect(t, b.client().Query(t.Context(), in, nil)); got.err != nil {
			t.Error(got.err)
		}
		if got := results(); !strings.Contains(got, "it said hi") {
			t.Errorf("got %q", got)
		}
	})
}

// envMCP makes the test binary an MCP server with one tool.
const envMCP = "QUERY_TEST_MCP"

func serveMCP() {
	type object = map[string]any
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var r struct {
			ID     any    `json:"id"`
			Method string `json:"method"`
			Params struct {
				Version   string            `json:"protocolVersion"`
				Arguments map[string]string `json:"arguments"`
			} `json:"params"`
		}
		if in.Decode(&r) != nil {
			os.Exit(0)
		}
		results := object{
			"initialize": object{"protocolVersion": r.Params.Version, "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "echo", "version": "1"}},
			"tools/list": object{"tools": []object{{"name": "say", "description": "says", "inputSchema": object{"type": "object", "properties": object{"text": object{"type": "string"}}}}}},
			"tools/call": object{"content": []object{{"type": "text", "text": "it said " + r.Params.Arguments["text"]}}},
		}
		answer := object{"jsonrpc": "2.0", "id": r.ID}
		if result, ok := results[r.Method]; ok {
			answer["result"] = result
		} else {
			answer["error"] = object{"code": -32601, "message": "no such method"}
		}
		if r.ID == nil {
			continue // a notification
		}
		if err := out.Encode(answer); err != nil {
			os.Exit(1)
		}
	}
}

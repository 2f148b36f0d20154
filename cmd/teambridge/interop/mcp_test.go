package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/status/mcp"
	"teambridge/teams"
)

// newAgentUser returns a person with one more session at a terminal, which has the tools of teambridge.
func newAgentUser(t *testing.T, v teams.Version, of *sessionUser) *sessionUser {
	t.Helper()
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"teambridge": map[string]any{
		"type": "stdio", "command": own(t), "args": []string{"mcp"}, "env": map[string]string{"TEAMBRIDGE_STATE": of.state(), "GORACE": "atexit_sleep_ms=0"},
	}}})
	must(t, err)
	file := filepath.Join(t.TempDir(), "mcp.json")
	must(t, os.WriteFile(file, config, 0o600))
	u := *of.user
	team := *u.team
	u.t, u.team = t, &team
	p := &sessionUser{user: &u, ctx: deadline(t, patience), home: of.home, args: []string{"--mcp-config", file, "--strict-mcp-config", "--allowedTools", "mcp__teambridge"}}
	p.begins(v, p.args...)
	// The program takes prompts before it is connected to the server.
	for i := 0; ; i++ {
		marker := fmt.Sprintf("[ready-%d-%d]", p.terminal.Pid(), i)
		p.prompts(marker)
		r, err := p.home.API.Wait(p.ctx, func(r standin.Request) bool { return !r.Side && r.Has(marker) })
		must(t, err)
		if slices.Contains(r.Tools, "mcp__teambridge__list_agents") {
			return p
		}
	}
}

// calls makes the agent of a session call a tool, and returns the answer.
func (p *sessionUser) calls(marker, tool string, in any) string {
	p.t.Helper()
	p.prompts(marker + "\n" + standin.CallLine("mcp__teambridge__"+tool, in))
	return p.result(marker)
}

// result waits for the result of the tool that was called in the turn with a marker.
func (p *sessionUser) result(marker string) string {
	p.t.Helper()
	first, err := p.home.API.Wait(p.ctx, func(r standin.Request) bool { return !r.Side && strings.Contains(r.Text(), marker) })
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", marker, err, p.terminal.Screen())
	}
	r, err := p.home.API.Wait(p.ctx, func(r standin.Request) bool {
		return !r.Side && r.Session == first.Session && r.Seq > first.Seq && len(r.Results) > 0
	})
	if err != nil {
		p.t.Fatalf("%s has no result: %v\n%s", marker, err, p.terminal.Screen())
	}
	return strings.Join(r.Results, "\n")
}

// answerOf decodes an answer of the tools as the model reads it, in its structured form.
func answerOf[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Errorf("the model reads %s: %v", text, err)
	}
	return v
}

// twoAgents starts two sessions with the tools, and a service.
func twoAgents(t *testing.T, v teams.Version) (ann, ben *sessionUser) {
	t.Helper()
	p := newSomebody(t, nil)
	p.serves()
	return newAgentUser(t, v, p), newAgentUser(t, v, p)
}

// Agents of sessions find, write to and ask each other with the tools, and the person can read both sides.
func TestRealAgentsWithTools(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		ann, ben := twoAgents(t, v)
		annIs, benIs := ann.session().Name+"@sessions", ben.session().Name+"@sessions"
		if annIs == benIs { // now and then Claude Code gives two sessions the same name
			annIs, benIs = ann.session().Session+"@sessions", ben.session().Session+"@sessions"
		}
		listed := answerOf[mcp.Listed](t, ann.calls("[list]", "list_agents", map[string]any{}))
		if listed.You != annIs || len(listed.Agents) != 1 || listed.Agents[0].To != benIs || listed.Agents[0].Does != api.WordIdle {
			t.Errorf("listed: %+v; it is %s, and the other %s", listed, annIs, benIs)
		}
		offered, err := ann.home.API.Wait(ann.ctx, func(r standin.Request) bool { return !r.Side && r.Has("[list]") })
		must(t, err)
		for _, tool := range []string{"list_agents", "send_message", "reply", "read_messages", "search_history"} {
			if !slices.Contains(offered.Tools, "mcp__teambridge__"+tool) {
				t.Errorf("the model is not offered %s, of %q", tool, offered.Tools)
			}
		}
		sent := answerOf[mcp.Sent](t, ann.calls("[tells]", "send_message", map[string]any{"to": benIs, "text": "(told)", "wait": "seen"}))
		if sent.State != api.Seen {
			t.Errorf("told: %+v", sent)
		}
		annIs, benIs = ann.session().As+"@sessions", ben.session().As+"@sessions"
		given, err := ben.home.API.Wait(ben.ctx, func(r standin.Request) bool {
			return !r.Side && r.Has("(told)") && strings.Contains(r.Text(), "<cross-session-message ")
		})
		must(t, err)
		_, id, _ := strings.Cut(given.Text(), `message-id="`)
		id, _, _ = strings.Cut(id, `"`)
		sent = answerOf[mcp.Sent](t, ben.calls("[replies]", "reply", map[string]any{"id": id, "text": "(replied)", "wait": "seen"}))
		if sent.State != api.Seen || sent.To != ann.session().Name+"@sessions" {
			t.Errorf("replied to %s: %+v", id, sent)
		}
		sent = answerOf[mcp.Sent](t, ann.calls("[asks]", "send_message", map[string]any{"to": benIs, "text": "(question)", "wait": "answer"}))
		if sent.State != "answered" || !strings.Contains(sent.Answer, "(question)") {
			t.Errorf("asked: %+v", sent)
		}
		read := answerOf[mcp.Messages](t, ben.calls("[reads]", "read_messages", map[string]any{}))
		if len(read.Messages) < 3 || !slices.ContainsFunc(read.Messages, func(m mcp.Message) bool { return m.Text == "(replied)" && m.From == benIs && m.State == api.Seen }) {
			t.Errorf("read: %+v", read)
		}
		if sent = answerOf[mcp.Sent](t, ben.calls("[user]", "send_message", map[string]any{"to": "user", "text": "(for the person)"})); sent.State != api.Verified {
			t.Errorf("to the person: %+v", sent)
		}
		found := answerOf[mcp.Messages](t, ben.calls("[searches]", "search_history", map[string]any{"words": "question"}))
		if len(found.Messages) == 0 || !slices.ContainsFunc(found.Messages, func(m mcp.Message) bool { return m.Text == "(question)" && m.From == annIs }) {
			t.Errorf("found: %+v", found)
		}
		history := ann.must("history", "--team", "sessions")
		for _, text := range []string{"(told)", "(replied)", "(question)", "(for the person)"} {
			if n := strings.Count(history, "\n    "+text+"\n"); n != 1 {
				t.Errorf("the history has %s %d times:\n%s", text, n, history)
			}
		}
		if mine := ann.must("inbox"); !strings.Contains(mine, "(for the person)") || strings.Contains(mine, "(replied)") {
			t.Errorf("the person has:\n%s", mine)
		}
	})
}

// The command of the README gives every session the tools, and Claude Code connects to the server.
func TestRealToolsAreAdded(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		home := standin.NewHome(t, nil)
		claude := func(args ...string) string {
			t.Helper()
			command := append(standin.Require(t, v), args...)
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Dir, cmd.Env = home.Work, append(home.Env(), "GORACE=atexit_sleep_ms=0")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("claude %q: %v\n%s", args, err, out)
			}
			return string(out)
		}
		claude("mcp", "add", "--scope", "user", "teambridge", "--", own(t), "mcp")
		if said := claude("mcp", "list"); !strings.Contains(said, "Connected") {
			t.Errorf("Claude Code says of its servers:\n%s", said)
		}
	})
}

// A session asks another session, which has the waiting hook.
func TestRealToolsAskByTheHook(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		ben := newHookedUser(t, v)
		ben.hooks("--undo") // for the next session
		ann := newAgentUser(t, v, ben.sessionUser)
		if said := ann.calls("[asks]", "send_message", map[string]any{"to": ben.session().Session, "text": "(question)", "wait": "answer", "timeout_seconds": 60}); !strings.Contains(said, "ACK") || !strings.Contains(said, "answered") {
			t.Errorf("asked: %s", said)
		}
		found := ann.must("history", "--team", "sessions", "--json")
		if n := strings.Count(found, `"text":"(question)"`); n != 1 || strings.Contains(found, `"from":"user","text":"(question)"`) {
			t.Errorf("the history has the question %d times:\n%s", n, found)
		}
	})
}

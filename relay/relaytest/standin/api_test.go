package standin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams/errtest"
)

// A conversation is a list of these, spelled as Claude Code does.
type object map[string]any

var must = errtest.Must

func user(blocks ...any) object { return object{"role": "user", "content": blocks} }
func text(s string) object      { return object{"type": "text", "text": s} }
func result(s string) object {
	return object{"type": "tool_result", "tool_use_id": "toolu_1", "content": []object{text(s)}}
}
func plain(s string) object     { return object{"role": "user", "content": s} }
func assistant(s string) object { return object{"role": "assistant", "content": []object{text(s)}} }
func wrapped(from, body string) string {
	return fmt.Sprintf("<teammate-message teammate_id=%q color=\"blue\" summary=\"sum\">\n%s\n</teammate-message>", from, body)
}

// call is one call of the API; empty fields get a default.
type call struct {
	session, agent string
	system         string
	noTools        bool
	stream         bool
	retry          bool
	unnamed        bool // without the headers that name the agent
	messages       []object
}

func (c call) send(ctx context.Context, url string) (*http.Response, error) {
	session := c.session
	if session == "" {
		session = "s"
	}
	id, err := json.Marshal(object{"session_id": session})
	if err != nil {
		return nil, err
	}
	body := object{
		"model": "m", "stream": c.stream, "messages": c.messages, "system": []object{text("rules"), text(c.system)},
		"metadata": object{"user_id": string(id)},
	}
	if !c.noTools {
		body["tools"] = []object{{"name": "Bash"}}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/messages?beta=true", bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if !c.unnamed {
		req.Header.Set("X-Claude-Code-Session-Id", session)
		if c.agent != "" {
			req.Header.Set("x-claude-code-agent-id", c.agent+"@team")
		}
	}
	req.Header.Set("X-Stainless-Retry-Count", "0")
	if c.retry {
		req.Header.Set("X-Stainless-Retry-Count", "1")
	}
	return http.DefaultClient.Do(req)
}

// reply is a call's answer.
func reply(t *testing.T, api *standin.API, c call) (status int, body string) {
	t.Helper()
	resp, err := c.send(t.Context(), api.URL)
	must(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(data)
}

// Script answers the newest texts with the calls, the delay and the echo that they ask for.
func TestScript(t *testing.T) {
	t.Parallel()
	bash := standin.CallLine("Bash", object{"command": "ls"})
	tests := []struct {
		name     string
		messages []object
		text     string
		calls    []string // name and input
		delay    time.Duration
	}{
		{name: "echo", messages: []object{plain("hello\n there")}, text: "ACK: hello there"},
		{name: "only what is newest", messages: []object{plain(bash), assistant("x"), plain("a"), user(text("b"))}, text: "ACK: a b"},
		{name: "system messages are no news", messages: []object{plain("a"), {"role": "system", "content": bash}}, text: "ACK: a"},
		{name: "typed in mid-turn", messages: []object{plain("a"), assistant("x"), user(result("files")), {"role": "system", "content": "The user sent a new message while you were working:\n" + bash + "\nDo not ignore it."}}, calls: []string{`Bash {"command":"ls"}`}},
		{name: "call", messages: []object{plain("do\n" + bash)}, calls: []string{`Bash {"command":"ls"}`}},
		{name: "two calls", messages: []object{plain(bash + "\n  CALL:{\"name\":\"Read\"}")}, calls: []string{`Bash {"command":"ls"}`, `Read {}`}},
		{name: "call in the middle of a line", messages: []object{plain("say CALL:{}")}, text: "ACK: say CALL:{}"},
		{name: "call in a message", messages: []object{user(text(wrapped("lead", "do\n"+bash)))}, calls: []string{`Bash {"command":"ls"}`}},
		{name: "tag behind a call", messages: []object{plain(bash + "</teammate-message>")}, calls: []string{`Bash {"command":"ls"}`}},
		{name: "not JSON", messages: []object{plain("CALL:{x}")}, text: "BAD CALL: invalid character 'x' looking for beginning of object key string: {x}"},
		{name: "no name", messages: []object{plain("CALL:{}")}, text: "BAD CALL: <nil>: {}"},
		{name: "result", messages: []object{plain(bash), assistant(""), user(result("files"))}, text: "done"},
		{name: "text beside a result", messages: []object{user(result("files"), text(bash))}, calls: []string{`Bash {"command":"ls"}`}},
		{name: "text inside a result", messages: []object{user(result("files\n<system-reminder>\nThe user sent a new message while you were working:\n" + bash + "\n</system-reminder>"))}, calls: []string{`Bash {"command":"ls"}`}},
		{name: "note inside a result", messages: []object{user(result("files\n<system-reminder>\n" + bash + "\n</system-reminder>"))}, text: "done"},
		{name: "reminder", messages: []object{user(text("<system-reminder>\n"+bash+"\n</system-reminder>\n"), text("a <system-reminder>b</system-reminder>c"))}, text: "ACK: a c"},
		{name: "message in a reminder", messages: []object{user(text("<system-reminder>" + wrapped("bob", "hi") + "</system-reminder>"))}, text: "ACK: hi"},
		{name: "note behind a message", messages: []object{plain(wrapped("bob", "hi") + "\n\nThis came from another session.")}, text: "ACK: hi"},
		{name: "two messages", messages: []object{plain(wrapped("bob", "one") + "\n\n" + wrapped("eve", "two"))}, text: "ACK: one two"},
		{name: "long", messages: []object{plain(strings.Repeat("ü", 200))}, text: "ACK: " + strings.Repeat("ü", 150)},
		{name: "sleep", messages: []object{plain("SLEEP:2.5 long")}, text: "ACK: SLEEP:2.5 long", delay: 2500 * time.Millisecond},
		{name: "sleep and call", messages: []object{plain("SLEEP:1\n" + bash)}, calls: []string{`Bash {"command":"ls"}`}, delay: time.Second},
		{name: "bad sleep", messages: []object{plain("SLEEP:1.2.3")}, text: `BAD SLEEP: strconv.ParseFloat: parsing "1.2.3": invalid syntax`},
		{name: "compaction", messages: []object{plain("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n" + bash)}, text: "<summary>A summary.</summary>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got standin.Answer
			api := standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
				got = standin.Script(ctx, r)
				a := got
				a.Delay = 0
				return a
			})
			if status, body := reply(t, api, call{messages: tt.messages}); status != http.StatusOK {
				t.Fatalf("status %d: %s", status, body)
			}
			var calls []string
			for _, c := range got.Calls {
				calls = append(calls, c.Name+" "+string(c.Input))
			}
			if got.Text != tt.text || got.Delay != tt.delay || !cmp.Equal(calls, tt.calls) {
				t.Errorf("got text %q, calls %q, delay %v\nwant text %q, calls %q, delay %v", got.Text, calls, got.Delay, tt.text, tt.calls, tt.delay)
			}
		})
	}
}

// TestCount: the API counts how often each agent got the marker [m] in a sequence of calls.
func TestCount(t *testing.T) {
	t.Parallel()
	m := plain("do [m]")
	answered := []object{m, assistant("ok")}
	tests := []struct {
		name  string
		calls []call
		main  int
		agent int // "worker"
		turns int // main
	}{
		{name: "once", calls: []call{{messages: []object{m}}}, main: 1, turns: 1},
		{name: "in the history of later calls", calls: []call{
			{messages: []object{m}},
			{messages: append(answered, user(result("[m]")))},
			{messages: append(answered, plain("next"))},
		}, main: 1, turns: 1},
		{name: "retry", calls: []call{{messages: []object{m}}, {messages: []object{m}, retry: true}}, main: 1, turns: 2},
		{name: "interrupted, then joined with the next", calls: []call{
			{messages: []object{m}},
			{messages: []object{m, plain("[Request interrupted by user]"), plain("next")}},
			{messages: []object{plain("do [m]\nnext"), assistant("ok"), plain("more")}},
		}, main: 1, turns: 2},
		{name: "twice, one after the other", calls: []call{
			{messages: []object{m}},
			{messages: append(answered, m)},
		}, main: 2, turns: 2},
		{name: "twice, in one call", calls: []call{{messages: []object{user(text("[m]"), text("[m]"))}}}, main: 2, turns: 1},
		{name: "twice, in one text", calls: []call{{messages: []object{plain("[m] [m]")}}}, main: 2, turns: 1},
		{name: "blocks spelled in another way", calls: []call{
			{messages: []object{user(text("<system-reminder>x</system-reminder>"), text("do [m]"))}},
			{messages: []object{m, assistant("ok"), plain("next")}},
		}, main: 1, turns: 1},
		{name: "resumed from elsewhere", calls: []call{{messages: append(answered, plain("next"))}}},
		{name: "resumed, new behind it", calls: []call{{messages: append(answered, m)}}, main: 1, turns: 1},
		{name: "resumed, the first prompt without an answer", calls: []call{
			{messages: []object{m, assistant("No response requested."), plain("go on")}},
			{messages: []object{m, assistant("No response requested."), plain("go on"), assistant("ok"), plain("next")}},
		}, main: 1},
		{name: "resumed, the second prompt without an answer", calls: []call{
			{messages: append(answered, plain("[x]"), assistant("No response requested."), plain("go on"))},
		}},
		{name: "again after a compaction", calls: []call{
			{messages: []object{m}},
			{messages: []object{plain("a summary"), plain("next")}},
			{messages: []object{plain("a summary"), plain("next"), assistant("ok"), m}},
		}, main: 2, turns: 2},
		{name: "compaction itself", calls: []call{
			{messages: []object{m}},
			{messages: append(answered, plain("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools. [m]"))},
		}, main: 1, turns: 1},
		{name: "suggestion", calls: []call{{messages: []object{plain("[SUGGESTION MODE: [m]")}}}},
		{name: "title", calls: []call{{noTools: true, messages: []object{m}}}},
		{name: "answers and results", calls: []call{{messages: []object{plain("x"), assistant("[m]"), user(result("[m]"))}}}},
		{name: "mid-turn, inside a result", calls: []call{
			{messages: []object{user(result("r\n<system-reminder>\nThe user sent a new message while you were working:\n[m]\n</system-reminder>"))}},
		}, main: 1, turns: 1},
		{name: "by agent", calls: []call{
			{messages: []object{m}},
			{agent: "worker", messages: []object{m}},
			{agent: "worker", messages: append(answered, m)},
		}, main: 1, agent: 2, turns: 1},
		{name: "by session", calls: []call{
			{session: "one", messages: []object{m}},
			{session: "two", messages: []object{m}},
		}, main: 2, turns: 2},
		{name: "conversations that only their first text tells apart", calls: []call{
			{unnamed: true, messages: []object{m}},
			{unnamed: true, messages: []object{plain("sub"), assistant("ok"), plain("x")}},
			{unnamed: true, messages: append(answered, plain("next"))},
		}, main: 1, turns: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			api := standin.StartAPI(t, nil)
			for _, c := range tt.calls {
				if status, body := reply(t, api, c); status != http.StatusOK {
					t.Fatalf("status %d: %s", status, body)
				}
			}
			for agent, want := range map[string]int{standin.Main: tt.main, "worker": tt.agent, standin.Any: tt.main + tt.agent} {
				if got := api.Count(agent, "[m]"); got != want {
					t.Errorf("Count(%s): got %d, want %d; %s", agent, got, want, api)
				}
				counts := map[string]int{}
				if want > 0 {
					counts["[m]"] = want
				}
				if diff := cmp.Diff(counts, api.Counts(agent, regexp.MustCompile(`\[m\]`))); diff != "" {
					t.Errorf("Counts(%s) (-want +got):\n%s", agent, diff)
				}
			}
			if got := api.Turns(standin.Main, "[m]"); got != tt.turns {
				t.Errorf("Turns: got %d, want %d; %s", got, tt.turns, api)
			}
		})
	}
}

// TestTeammates: teammates without headers are recognized by their first prompts, while the conversation has those.
func TestTeammates(t *testing.T) {
	t.Parallel()
	api := standin.StartAPI(t, nil)
	rules := "You are running as an agent in a team. To communicate …"
	reply(t, api, call{unnamed: true, messages: []object{plain(standin.CallLine("Agent", object{"name": "bob", "prompt": "You are bob"}))}})
	reply(t, api, call{unnamed: true, system: rules, messages: []object{plain(wrapped("team-lead", "You are bob"))}})
	reply(t, api, call{unnamed: true, system: rules, messages: []object{plain("a summary")}})
	reply(t, api, call{unnamed: true, session: "other", system: rules, messages: []object{plain(wrapped("team-lead", "You are bob"))}})
	var got []string
	for _, r := range api.Log() {
		got = append(got, r.Agent)
	}
	if diff := cmp.Diff([]string{standin.Main, "bob", standin.Teammate, standin.Teammate}, got); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
}

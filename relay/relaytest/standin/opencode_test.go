package standin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/relay/relaytest/standin"
)

// post sends a call and returns its answer.
func post(t *testing.T, address, session string, body any) (status int, answer string) {
	t.Helper()
	data, err := json.Marshal(body)
	must(t, err)
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, address, bytes.NewReader(data))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-Id", session)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if data, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// chat returns a body of POST /v1/chat/completions.
func chat(messages ...object) object {
	return object{
		"model": "m", "messages": append([]object{{"role": "system", "content": "rules"}}, messages...),
		"tools": []object{{"type": "function", "function": object{"name": "bash"}}},
	}
}

func TestChat(t *testing.T) {
	t.Parallel()
	api := standin.StartAPI(t, nil)
	address := api.URL + "/v1/chat/completions"
	used := object{"role": "assistant", "content": "", "tool_calls": []object{{"id": "call_1_0"}}}
	ran := object{"role": "tool", "tool_call_id": "call_1_0", "content": "(no output)"}
	update := plain("<system-update>\nCALL:{\"name\":\"x\"}\n</system-update>")
	title := object{"model": "m", "messages": []object{plain("[m-9]")}}
	streamed := chat(plain("TOOL:0.25 [m-1]"))
	streamed["stream"] = true
	for _, tt := range []struct {
		name string
		body object
		want string
	}{
		{"tool, streamed", streamed, `data: {"choices":[{"delta":{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":"{\"command\":\"sleep 0.25\",\"description\":\"Wait\"}","name":"bash"},"id":"call_1_0","index":0,"type":"function"}]},"finish_reason":null,"index":0}],"created":1,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk"}

data: {"choices":[{"delta":{},"finish_reason":"tool_calls","index":0}],"created":1,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":5,"prompt_tokens":10,"total_tokens":15}}

data: [DONE]

`},
		{"result, whole", chat(plain("TOOL:0.25 [m-1]"), used, ran, update), `{"choices":[{"finish_reason":"stop","index":0,"message":{"content":"done","role":"assistant"}}],"created":1,"id":"chatcmpl-2","model":"m","object":"chat.completion","usage":{"completion_tokens":5,"prompt_tokens":10,"total_tokens":15}}`},
		{"the next turn", chat(plain("TOOL:0.25 [m-1]"), used, ran, update, object{"role": "assistant", "content": "done"}, plain("[m-2]")), `{"choices":[{"finish_reason":"stop","index":0,"message":{"content":"ACK: [m-2]","role":"assistant"}}],"created":1,"id":"chatcmpl-3","model":"m","object":"chat.completion","usage":{"completion_tokens":5,"prompt_tokens":10,"total_tokens":15}}`},
		{"title", title, `{"choices":[{"finish_reason":"stop","index":0,"message":{"content":"\u003csummary\u003eA summary.\u003c/summary\u003e","role":"assistant"}}],"created":1,"id":"chatcmpl-4","model":"m","object":"chat.completion","usage":{"completion_tokens":5,"prompt_tokens":10,"total_tokens":15}}`},
	} {
		status, got := post(t, address, "ses_1", tt.body)
		if diff := cmp.Diff(tt.want, got); status != http.StatusOK || diff != "" {
			t.Errorf("%s: status %d (-want +got):\n%s", tt.name, status, diff)
		}
	}
	if status, got := post(t, address, "ses_1", object{"messages": 1}); status != http.StatusBadRequest || !strings.HasPrefix(got, `{"error":{"message":"`) {
		t.Errorf("no list of messages: got %d, %s", status, got)
	}
	// A call that is repeated because its answer did not arrive does not count again.
	post(t, address, "ses_1", chat(plain("TOOL:0.25 [m-1]"), used, ran, object{"role": "assistant", "content": "done"}, plain("[m-2]")))
	for marker, want := range map[string][2]int{"[m-1]": {1, 1}, "[m-2]": {1, 2}, "[m-9]": {0, 0}} {
		if count, turns := api.Count(standin.Main, marker), api.Turns(standin.Main, marker); count != want[0] || turns != want[1] {
			t.Errorf("%s: given %d times, answered %d times, want %v", marker, count, turns, want)
		}
	}
	if r := api.Log()[0]; r.Session != "ses_1" || r.System != "rules" || !slices.Equal(r.Tools, []string{"bash"}) || !r.Streamed {
		t.Errorf("got %+v", r)
	}
}

// TestRealOpenCode: a real server works with the stand-in: texts, its shell, both models, and an error.
func TestRealOpenCode(t *testing.T) {
	t.Parallel()
	standin.RequireOpenCode(t)
	api := standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
		if r.Has("[m-4]") {
			return standin.Answer{Status: http.StatusBadRequest, Text: "out of order"}
		}
		return standin.Script(ctx, r)
	})
	home := standin.NewHome(t, api)
	server, _ := standin.StartOpenCode(t, home)
	tools := []string{"apply_patch", "bash", "edit", "glob", "grep", "question", "read", "skill", "todowrite", "webfetch", "websearch", "write"}
	for i, tt := range []struct{ model, text, want string }{
		{"sonnet", "hello [m-1]", `"text":"ACK: hello [m-1]"`},
		{"opus", "TOOL:0.01 [m-2]", `Command exited with code 0.`},
		{"opus", standin.CallLine("bash", object{"command": "echo from-$((40+2))", "description": "d"}) + "\n[m-3]", `from-42`},
		{"sonnet", "[m-4]", `out of order`},
	} {
		session := fmt.Sprintf("ses_%032d", i+1)
		message := fmt.Sprintf("msg_%032d", i+1)
		if status, got := post(t, server+"/api/session", "", object{
			"id": session, "location": object{"directory": home.Work},
			"model": object{"id": tt.model, "providerID": standin.OpenCodeProvider},
		}); status != http.StatusOK {
			t.Fatalf("session: %d %s", status, got)
		}
		if status, got := post(t, server+"/api/session/"+session+"/prompt", "", object{
			"id": message, "prompt": object{"text": tt.text}, "delivery": "queue",
		}); status != http.StatusOK {
			t.Fatalf("prompt: %d %s", status, got)
		}
		marker := fmt.Sprintf("[m-%d]", i+1)
		r, err := api.Wait(within(t), func(r standin.Request) bool { return r.Has(marker) })
		must(t, err)
		if r.Session != session || r.Model != tt.model || r.Agent != standin.Main || r.Side || !slices.Equal(r.Tools, tools) {
			t.Errorf("%s: got session %s, model %s, agent %s, side %t, tools %q", marker, r.Session, r.Model, r.Agent, r.Side, r.Tools)
		}
		follow(t, server+"/api/session/"+session+"/event?after=0", tt.want)
		if n := api.Count(standin.Main, marker); n != 1 {
			t.Errorf("%s: given %d times", marker, n)
		}
	}
}

// follow reads events until one holds the text.
func follow(t *testing.T, address, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, address, nil)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	var read bytes.Buffer
	for part := make([]byte, 4096); !strings.Contains(read.String(), text); {
		n, err := resp.Body.Read(part)
		read.Write(part[:n])
		if err != nil {
			t.Fatalf("no %q in the events: %v; %s", text, err, read.String())
		}
	}
}

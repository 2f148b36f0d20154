package query_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"teambridge/relay/query"
)

func TestParseInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	want := query.Input{
		Prompt: "What is 2 + 2?", Architecture: "claude", Model: "sonnet", SessionID: "3f3c58ee-33ff-467b-95ea-b5bde5dd1ce1", Cwd: dir,
		MCPServers: map[string]query.MCPServer{
			"files": {Command: "files", Args: []string{"-v"}, Env: map[string]string{"A": "b"}},
			"web":   {Type: "sse", URL: "https://localhost/mcp", Headers: map[string]string{"A": "b"}},
		},
		Tools: []string{"Read", "mcp__files__list"}, PermissionMode: "plan", StreamingInput: true,
	}
	data, err := json.Marshal(want)
	must(t, err)
	if got, err := query.ParseInput(data); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, %v", data, got, err)
	}
	if got, err := query.ParseInput([]byte(`{"tools":[],"streamingInput":true}`)); err != nil || got.Tools == nil {
		t.Errorf("got %+v, %v; want a list of no tools", got, err)
	}

	for input, want := range map[string]string{
		``:                        "is not one JSON object: unexpected end of JSON input",
		`{"prompt":"a"`:           "is not one JSON object: unexpected end of JSON input",
		`{"prompt":"a"} {}`:       "is not one JSON object: invalid character '{' after top-level value",
		`["a"]`:                   "is a list, must be an object",
		"{\"prompt\":\"\xff\"}":   `"prompt" is not valid UTF-8`,
		`{"prompt":"x \ud83d y"}`: `"prompt" has half of a surrogate pair`,
		`{"prompt":"a","mcpServers":{"s":{"command":"c","env":{"A":"1","A":"2"}}}}`: `"mcpServers.s.env.A" occurs twice`,
		`{}`:                                                    `"prompt" is missing or blank`,
		`{"prompt":" ","streamingInput":true}`:                  `"prompt" is missing or blank`,
		`{"Prompt":"a"}`:                                        `"Prompt" is not a key; there are prompt, architecture, model, sessionId, cwd, mcpServers, tools, profile, permissionMode, streamingInput`,
		`{"prompt":"a","allowedTools":[]}`:                      `"allowedTools" is not a key; `,
		`{"prompt":"a","prompt":"b"}`:                           `"prompt" occurs twice`,
		`{"prompt":1}`:                                          `"prompt" is a number, must be a text`,
		`{"prompt":"a","model":null}`:                           `"model" is null, must be a text`,
		`{"prompt":"a","streamingInput":"yes"}`:                 `"streamingInput" is a text, must be a boolean`,
		`{"prompt":"a","tools":"Read"}`:                         `"tools" is a text, must be a list of texts`,
		`{"prompt":"a","tools":["Read",1]}`:                     `"tools" is a list, must be a list of texts`,
		`{"prompt":"a","tools":["Read",null]}`:                  `"tools" is a list, must be a list of texts`,
		`{"prompt":"a","tools":["*"]}`:                          `"tools" has "*", which is not the name of a tool`,
		`{"prompt":"a","tools":["Bash(ls)"]}`:                   `"tools" has "Bash(ls)", which is not the name of a tool`,
		`{"prompt":"a","tools":["-p"]}`:                         `"tools" has "-p", which is not the name of a tool`,
		`{"prompt":"a","architecture":"gpt"}`:                   `"architecture" is "gpt", must be one of claude`,
		`{"prompt":"a","permissionMode":"all"}`:                 `"permissionMode" is "all", must be one of plan, `,
		`{"prompt":"a","sessionId":"last"}`:                     `"sessionId" is "last", must be a UUID`,
		`{"prompt":"a","cwd":"/nowhere"}`:                       `"cwd" cannot be used: `,
		`{"prompt":"a","cwd":"` + filepath.ToSlash(file) + `"}`: `which is not a directory`,
		`{"prompt":"a","architecture":"opencode","mcpServers":{"a":{"command":"x"}}}`: `"mcpServers" cannot be given: OpenCode`,
		`{"prompt":"a","mcpServers":[]}`:                                              `"mcpServers" is a list, must be an object`,
		`{"prompt":"a","mcpServers":{"a":1}}`:                                         `"mcpServers.a" is a number, must be an object`,
		`{"prompt":"a","mcpServers":{"a":{"cmd":"x"}}}`:                               `"mcpServers.a.cmd" is not a key; `,
		`{"prompt":"a","mcpServers":{"a":{"env":{"A":null}}}}`:                        `"mcpServers.a.env" is an object, must be an object of texts`,
		`{"prompt":"a","mcpServers":{"a":{}}}`:                                        `"mcpServers.a" is of type stdio: it must have a command`,
		`{"prompt":"a","mcpServers":{"a":{"url":"file:///"}}}`:                        `"mcpServers.a" is of type http: it must have a url`,
		`{"prompt":"a","mcpServers":{"a":{"type":"x"}}}`:                              `"mcpServers.a" is of type "x", must be stdio, http or sse`,
		`{"prompt":"a","mcpServers":{"a b":{"command":"x"}}}`:                         `"mcpServers" has "a b", which is not a name`,
	} {
		_, err := query.ParseInput([]byte(input))
		if _, ok := errors.AsType[*query.InputError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", input, err, want)
		}
	}
}

func TestParseMessage(t *testing.T) {
	t.Parallel()
	for _, input := range []string{`{"prompt":"hello"}`, `{"text":"hello"}`} {
		if got, err := query.ParseMessage([]byte(input)); err != nil || got.Text != "hello" {
			t.Errorf("%s: got %+v, %v", input, got, err)
		}
	}
	for input, want := range map[string]string{
		`hello`:                     "is not one JSON object",
		`{}`:                        "one of the keys",
		`{"prompt":"a","text":"b"}`: "one of the keys",
		`{"text":"a","mode":{}}`:    `"mode" is not a key; there are prompt, text`,
		`{"text":null}`:             `"text" is null, must be a text`,
		`{"text":"\n"}`:             "blank",
	} {
		_, err := query.ParseMessage([]byte(input))
		if _, ok := errors.AsType[*query.InputError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", input, err, want)
		}
	}
}

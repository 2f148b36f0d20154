package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// responseItem has the used fields of an item of POST /v1/responses.
type responseItem struct {
	Type      string  `json:"type"`
	Role      string  `json:"role"`
	Content   Content `json:"content"`
	CallID    string  `json:"call_id"`
	Namespace string  `json:"namespace"`
	Output    Content `json:"output"`
}

// parseResponses is [parse] for the Responses API, as Codex calls it. A message to a thread from outside, which is
// the output of a tool that was not called, is a text.
func parseResponses(data []byte, _ http.Header) (r Request, history []string, old int, err error) {
	type tool struct {
		Type, Name string
		Tools      []tool
	}
	var b struct {
		Model  string         `json:"model"`
		Key    string         `json:"prompt_cache_key"`
		Input  []responseItem `json:"input"`
		Tools  []tool         `json:"tools"`
		Stream bool           `json:"stream"`
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return Request{}, nil, 0, err
	}
	r = Request{Model: b.Model, Streamed: b.Stream, Agent: Main, Session: b.Key}
	for _, t := range b.Tools {
		if t.Type != "namespace" {
			r.Tools = append(r.Tools, t.Name)
		}
		for _, inner := range t.Tools {
			r.Tools = append(r.Tools, t.Name+"__"+inner.Name)
		}
	}
	plain := func(c Content) Content { return Content{{Type: "text", Text: c.anyText()}} }
	var messages []message
	for _, item := range b.Input {
		switch {
		case item.Type == "message" && item.Role == "developer":
			messages = append(messages, message{Role: "system", Content: plain(item.Content)})
		case item.Type == "message":
			messages = append(messages, message{Role: item.Role, Content: plain(item.Content)})
		case item.Type == "function_call":
			messages = append(messages, message{Role: "assistant", Content: Content{{Type: "text", Text: "a call"}}})
		case item.Type == "function_call_output" && item.CallID == "":
			messages = append(messages, message{Role: "user", Content: plain(item.Output)})
		case item.Type == "function_call_output":
			messages = append(messages, message{Role: "user", Content: Content{{Type: "tool_result", Content: plain(item.Output)}}})
		}
	}
	history, old, err = r.read(messages)
	return r, history, old, err
}

// anyText returns the text of all blocks of any type.
func (c Content) anyText() string {
	var texts []string
	for _, b := range c {
		texts = append(texts, b.Text)
	}
	return strings.Join(texts, "\n")
}

// writeResponses is [write] for the Responses API. The tools of an MCP server are called by their names in Claude Code.
func writeResponses(w http.ResponseWriter, _ Request, a Answer, n int) error {
	if a.Status >= 400 {
		return writeJSON(w, a.Status, object{"error": problem(a)})
	}
	id := fmt.Sprintf("resp_%d", n)
	all := []object{{"type": "response.created", "response": object{"id": id}}}
	if a.Text != "" || len(a.Calls) == 0 {
		item := func(content ...object) object {
			return object{"type": "message", "role": "assistant", "id": fmt.Sprintf("msg_%d", n), "content": append([]object{}, content...)}
		}
		all = append(all,
			object{"type": "response.output_item.added", "item": item()},
			object{"type": "response.output_text.delta", "delta": a.Text},
			object{"type": "response.output_item.done", "item": item(object{"type": "output_text", "text": a.Text})})
	}
	for i, c := range a.Calls {
		item := object{"type": "function_call", "id": fmt.Sprintf("fc_%d_%d", n, i), "call_id": fmt.Sprintf("call_%d_%d", n, i), "name": c.Name, "arguments": string(c.Input)}
		if at := strings.LastIndex(c.Name, "__"); at > 0 {
			item["namespace"], item["name"] = c.Name[:at], c.Name[at+2:]
		}
		all = append(all, object{"type": "response.output_item.done", "item": item})
	}
	all = append(all, object{"type": "response.completed", "response": object{"id": id, "usage": object{
		"input_tokens": 10, "input_tokens_details": nil, "output_tokens": 5, "output_tokens_details": nil, "total_tokens": 15,
	}}})
	return writeEvents(w, all, "")
}

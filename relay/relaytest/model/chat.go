package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// chatMessage has the used fields of a message of POST /v1/chat/completions.
type chatMessage struct {
	Role    string  `json:"role"`
	Content Content `json:"content"`
}

// parseChat is [parse] for the API of OpenAI, as OpenCode calls it.
func parseChat(data []byte, header http.Header) (r Request, history []string, old int, err error) {
	var b struct {
		Model    string        `json:"model"`
		Messages []chatMessage `json:"messages"`
		Tools    []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		Stream bool `json:"stream"`
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return Request{}, nil, 0, err
	}
	r = Request{Model: b.Model, Streamed: b.Stream, Agent: Main, Session: header.Get("X-Session-Id")}
	r.unnamed = r.Session == ""
	for _, tool := range b.Tools {
		r.Tools = append(r.Tools, tool.Function.Name)
	}
	var system []string
	var messages []message
	for _, m := range b.Messages {
		switch m.Role {
		case "system", "developer":
			system = append(system, m.Content.Text())
		case "tool":
			messages = append(messages, message{Role: "user", Content: Content{{Type: "tool_result", Content: m.Content}}})
		default:
			messages = append(messages, message(m))
		}
	}
	r.System = strings.Join(system, "\n")
	history, old, err = r.read(messages)
	return r, history, old, err
}

// writeChat is [write] for the API of OpenAI.
func writeChat(w http.ResponseWriter, r Request, a Answer, n int) error {
	if a.Status >= 400 {
		return writeJSON(w, a.Status, object{"error": problem(a)})
	}
	// With a text first, as write has it.
	said := object{"role": "assistant", "content": a.Text}
	stop := "stop"
	var calls []object
	for i, c := range a.Calls {
		calls = append(calls, object{
			"index": i, "id": fmt.Sprintf("call_%d_%d", n, i), "type": "function",
			"function": object{"name": c.Name, "arguments": string(c.Input)},
		})
		stop = "tool_calls"
	}
	if calls != nil {
		said["tool_calls"] = calls
	}
	answer := func(kind string, choices ...object) object {
		return object{"id": "chatcmpl-" + strconv.Itoa(n), "object": kind, "created": 1, "model": r.Model, "choices": choices}
	}
	usage := object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	if !r.Streamed {
		whole := answer("chat.completion", object{"index": 0, "message": said, "finish_reason": stop})
		whole["usage"] = usage
		return writeJSON(w, http.StatusOK, whole)
	}
	first := answer("chat.completion.chunk", object{"index": 0, "delta": said, "finish_reason": nil})
	last := answer("chat.completion.chunk", object{"index": 0, "delta": object{}, "finish_reason": stop})
	last["usage"] = usage
	return writeEvents(w, []object{first, last}, "data: [DONE]\n\n")
}

package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// callGemini answers a call of the Gemini API, whose path ends with MODEL:METHOD.
func (a *API) callGemini(w http.ResponseWriter, r *http.Request) {
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	a.call(w, r, func(data []byte, _ http.Header) (Request, []string, int, error) {
		r, history, old, err := parseGemini(data)
		r.Model, r.Streamed = model, method == "streamGenerateContent"
		return r, history, old, err
	}, writeGemini)
}

// parseGemini is [parse] for the Gemini API, as Gemini CLI calls it.
func parseGemini(data []byte) (r Request, history []string, old int, err error) {
	type content struct {
		Role  string
		Parts []struct {
			Text             string
			FunctionResponse *struct{ Response json.RawMessage }
		}
	}
	var b struct {
		Contents          []content
		SystemInstruction content
		Tools             []struct{ FunctionDeclarations []struct{ Name string } }
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return Request{}, nil, 0, err
	}
	r = Request{Agent: Main, unnamed: true}
	for _, t := range b.Tools {
		for _, f := range t.FunctionDeclarations {
			r.Tools = append(r.Tools, f.Name)
		}
	}
	for _, p := range b.SystemInstruction.Parts {
		r.System += p.Text
	}
	var messages []message
	for _, c := range b.Contents {
		m := message{Role: "user"}
		if c.Role == "model" {
			m.Role = "assistant"
		}
		for _, p := range c.Parts {
			if p.FunctionResponse != nil {
				m.Content = append(m.Content, block{Type: "tool_result", Content: Content{{Type: "text", Text: string(p.FunctionResponse.Response)}}})
			} else {
				m.Content = append(m.Content, block{Type: "text", Text: p.Text})
			}
		}
		messages = append(messages, m)
	}
	history, old, err = r.read(messages)
	return r, history, old, err
}

// writeGemini is [write] for the Gemini API.
func writeGemini(w http.ResponseWriter, r Request, a Answer, n int) error {
	if a.Status >= 400 {
		return writeJSON(w, a.Status, object{"error": problem(a)})
	}
	var parts []object
	if a.Text != "" || len(a.Calls) == 0 {
		parts = append(parts, object{"text": a.Text})
	}
	for i, c := range a.Calls {
		parts = append(parts, object{"functionCall": object{"id": fmt.Sprintf("call_%d_%d", n, i), "name": c.Name, "args": c.Input}})
	}
	answer := object{
		"candidates":    []object{{"content": object{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
	}
	if !r.Streamed {
		return writeJSON(w, http.StatusOK, answer)
	}
	return writeEvents(w, []object{answer}, "")
}

package model

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// object keeps the literals below readable.
type object map[string]any

// write sends an answer: server-sent events if the client asked for a stream, one JSON message if not, an error object
// for a status of 400 and more. n makes the ids unique within an API.
func write(w http.ResponseWriter, r Request, a Answer, n int) error {
	if a.Status >= 400 {
		return writeJSON(w, a.Status, object{"type": "error", "error": problem(a)})
	}
	blocks, stop := blocks(a, n)
	whole := object{
		"id": "msg_" + strconv.Itoa(n), "type": "message", "role": "assistant", "model": r.Model,
		"content": blocks, "stop_reason": stop, "stop_sequence": nil,
		"usage": object{"input_tokens": 10, "output_tokens": 5},
	}
	if !r.Streamed {
		return writeJSON(w, http.StatusOK, whole)
	}
	return writeEvents(w, events(whole, blocks, stop), "")
}

// writeEvents writes server-sent events, those with a type under its name, and end behind them.
func writeEvents(w http.ResponseWriter, events []object, end string) error {
	var all strings.Builder
	for _, event := range events {
		data, err := json.Marshal(event)
		if err != nil {
			return err
		}
		if kind := event["type"]; kind != nil {
			fmt.Fprintf(&all, "event: %s\n", kind)
		}
		fmt.Fprintf(&all, "data: %s\n\n", data)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	if _, err := io.WriteString(w, all.String()+end); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// problem is the error object of an answer with a status of 400 and more.
func problem(a Answer) object {
	kind := "api_error"
	if a.Status == http.StatusBadRequest {
		kind = "invalid_request_error"
	}
	return object{"type": kind, "message": a.Text}
}

// blocks returns the content of the answer and its stop_reason.
func blocks(a Answer, n int) ([]object, string) {
	var all []object
	if a.Text != "" || len(a.Calls) == 0 {
		all = append(all, object{"type": "text", "text": a.Text})
	}
	for i, c := range a.Calls {
		all = append(all, object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d_%d", n, i), "name": c.Name, "input": c.Input})
	}
	if len(a.Calls) > 0 {
		return all, "tool_use"
	}
	return all, "end_turn"
}

// events returns the stream of an answer: every block comes empty first and is then filled by one delta.
func events(whole object, blocks []object, stop string) []object {
	opening := maps.Clone(whole)
	opening["content"], opening["stop_reason"] = []object{}, nil
	all := []object{{"type": "message_start", "message": opening}}
	for i, b := range blocks {
		empty, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": b["text"]}
		if b["type"] == "tool_use" {
			empty = object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}
			delta = object{"type": "input_json_delta", "partial_json": string(b["input"].(json.RawMessage))}
		}
		all = append(all,
			object{"type": "content_block_start", "index": i, "content_block": empty},
			object{"type": "content_block_delta", "index": i, "delta": delta},
			object{"type": "content_block_stop", "index": i})
	}
	return append(all,
		object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 5}},
		object{"type": "message_stop"})
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(data)
	return err
}

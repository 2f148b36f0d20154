package model

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Responder decides what the model answers. It may be called by several agents at once, may wait on ctx (which ends
// when the client goes away or the API is closed), and may fall back to Script.
type Responder func(ctx context.Context, r Request) Answer

// Answer is a model's answer: a text, tool calls, or an error.
type Answer struct {
	// Text comes before the calls; an answer with neither is an empty text.
	Text string
	// Calls make the agent use tools; it asks again with their results.
	Calls []Call
	// Delay passes before the first byte of the answer, as while a model works on a long turn.
	Delay time.Duration
	// Status, if it is 400 or more, is an HTTP error with Text as its message. Claude Code tries again after 408, 409,
	// 429 and 5xx.
	Status int
}

// Call is the use of a tool.
type Call struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

var (
	callLine  = lazily(`(?m)^[ \t]*CALL:(.*)$`)
	toolLine  = lazily(`(?m)^[ \t]*TOOL:([0-9.]+)`)
	sleepLine = lazily(`(?m)^[ \t]*SLEEP:([0-9.]+)`)
	tags      = lazily(`</?teammate-message[^>]*>`)
)

// Script is a model that obeys lines in the newest texts, even inside a <teammate-message>, so
// that a test can make a teammate act by sending it one:
//
//	CALL:{"name":"SendMessage","input":{…}}   use that tool; several lines are several uses
//	TOOL:0.5                                  in OpenCode, use its shell for 0.5 seconds
//	SLEEP:2.5                                 answer after 2.5 seconds; of several lines, the last counts
//
// Without a CALL it answers "done" to the result of a tool, and echoes everything else as "ACK: …" in one line of at
// most 300 bytes. The echo has no wrapper tags: in a teammate's answer, Claude Code takes them for an attack. A line
// that cannot be read is answered with "BAD CALL: …" or "BAD SLEEP: …". A compaction gets a fixed summary.
func Script(_ context.Context, r Request) Answer {
	text := r.Text()
	if r.Side {
		return Answer{Text: "<summary>A summary.</summary>"}
	}
	var a Answer
	if all := sleepLine().FindAllStringSubmatch(text, -1); len(all) > 0 {
		seconds, err := strconv.ParseFloat(all[len(all)-1][1], 64)
		if err != nil {
			return Answer{Text: fmt.Sprintf("BAD SLEEP: %v", err)}
		}
		a.Delay = time.Duration(seconds * float64(time.Second))
	}
	for _, m := range callLine().FindAllStringSubmatch(text, -1) {
		var c Call
		// A decoder, because a wrapper's closing tag may follow on the same line.
		if err := json.NewDecoder(strings.NewReader(m[1])).Decode(&c); err != nil || c.Name == "" {
			return Answer{Text: fmt.Sprintf("BAD CALL: %v: %.200s", err, m[1])}
		}
		if len(c.Input) == 0 {
			c.Input = json.RawMessage("{}")
		}
		a.Calls = append(a.Calls, c)
	}
	if all := toolLine().FindAllStringSubmatch(text, -1); len(all) > 0 && slices.Contains(r.Tools, "bash") {
		input, err := json.Marshal(object{"command": "sleep " + all[len(all)-1][1], "description": "Wait"})
		if err != nil {
			return Answer{Text: fmt.Sprintf("BAD TOOL: %v", err)}
		}
		a.Calls = append(a.Calls, Call{Name: "bash", Input: input})
	}
	switch {
	case len(a.Calls) > 0:
	case len(r.Results) > 0:
		a.Text = "done"
	default:
		a.Text = "ACK: " + echo(r)
	}
	return a
}

// echo returns the texts in one line, only the messages if there are any: Claude Code adds a paragraph to each.
func echo(r Request) string {
	text := r.Text()
	if all := r.Deliveries(); len(all) > 0 {
		var bodies []string
		for _, d := range all {
			bodies = append(bodies, d.Body)
		}
		text = strings.Join(bodies, " ")
	}
	text = strings.Join(strings.Fields(tags().ReplaceAllString(text, " ")), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "")
	}
	return text
}

// CallLine returns a line that makes [Script] use a tool. If JSON cannot represent the input, the line says so and
// Script answers BAD CALL.
func CallLine(tool string, input any) string {
	data, err := json.Marshal(object{"name": tool, "input": input})
	if err != nil {
		return "CALL:" + err.Error()
	}
	return "CALL:" + string(data)
}

package opencode

import (
	"encoding/json"
	"fmt"
	"time"
)

// Event is a durable event of a session. The part of the session that the event creates has the same id.
type Event struct {
	ID   string
	Type string    // such as "session.next.prompted"
	Seq  int64     // its number in the session
	At   time.Time // UTC; a prompt's time is its admission, which may be long before its promotion
	Data any       // such as a *[Prompted]; nil for types that this package ignores
}

// The data of the events in use, with only the fields in use. TestRealEvents compares them with OpenCode's
// API description.
type (
	// Prompted means that a prompt was promoted, and its turn begins.
	Prompted struct {
		MessageID string `json:"messageID"`
		Prompt    struct {
			Text string `json:"text"`
		} `json:"prompt"`
	}

	// Synthetic is a text of the program in the user's role.
	Synthetic struct {
		MessageID string `json:"messageID"`
		Text      string `json:"text"`
	}

	// ShellStarted is a command that a person runs in the session.
	ShellStarted struct {
		MessageID string `json:"messageID"`
		CallID    string `json:"callID"`
		Command   string `json:"command"`
	}

	// ShellEnded is the end of a command of [ShellStarted].
	ShellEnded struct {
		CallID string `json:"callID"`
	}

	// StepStarted means that an answer of the model begins.
	StepStarted struct{}

	// StepEnded is a complete answer of the model, with the results of its tools.
	StepEnded struct {
		Finish string `json:"finish"` // "tool-calls" if the model will be called again; "stop", "length", …
		Tokens Tokens `json:"tokens"`
	}

	// StepFailed is an answer that failed or was interrupted.
	StepFailed struct {
		MessageID string  `json:"assistantMessageID"`
		Error     Problem `json:"error"`
	}

	// TextEnded is a text of the agent.
	TextEnded struct {
		MessageID string `json:"assistantMessageID"`
		TextID    string `json:"textID"`
		Text      string `json:"text"`
	}

	// ReasoningEnded is a reasoning text of the agent.
	ReasoningEnded struct {
		MessageID   string `json:"assistantMessageID"`
		ReasoningID string `json:"reasoningID"`
		Text        string `json:"text"`
	}

	// ToolCalled is the start of a tool call.
	ToolCalled struct {
		MessageID string          `json:"assistantMessageID"`
		CallID    string          `json:"callID"`
		Tool      string          `json:"tool"`
		Input     json.RawMessage `json:"input"`
	}

	// ToolSuccess is the end of a tool call.
	ToolSuccess struct {
		MessageID string `json:"assistantMessageID"`
		CallID    string `json:"callID"`
	}

	// ToolFailed is the end of a tool call that failed or was interrupted.
	ToolFailed struct {
		MessageID string  `json:"assistantMessageID"`
		CallID    string  `json:"callID"`
		Error     Problem `json:"error"`
	}

	// Retried is a failed call of the model that will be repeated.
	Retried struct {
		Error Problem `json:"error"`
	}

	// CompactionEnded means that a summary has replaced the earlier conversation.
	CompactionEnded struct {
		MessageID string `json:"messageID"`
	}
)

// Tokens are the tokens of an answer. Input excludes tokens from the cache, and Output excludes reasoning.
type Tokens struct {
	Input     float64 `json:"input"`
	Output    float64 `json:"output"`
	Reasoning float64 `json:"reasoning"`
	Cache     struct {
		Read  float64 `json:"read"`
		Write float64 `json:"write"`
	} `json:"cache"`
}

// Problem is the cause of a failure.
type Problem struct {
	Message string `json:"message"`
}

// newData returns an empty value for the data of a type of event, or nil.
func newData(kind string) any {
	switch kind {
	case "session.next.prompted":
		return new(Prompted)
	case "session.next.synthetic":
		return new(Synthetic)
	case "session.next.shell.started":
		return new(ShellStarted)
	case "session.next.shell.ended":
		return new(ShellEnded)
	case "session.next.step.started":
		return new(StepStarted)
	case "session.next.step.ended":
		return new(StepEnded)
	case "session.next.step.failed":
		return new(StepFailed)
	case "session.next.text.ended":
		return new(TextEnded)
	case "session.next.reasoning.ended":
		return new(ReasoningEnded)
	case "session.next.tool.called":
		return new(ToolCalled)
	case "session.next.tool.success":
		return new(ToolSuccess)
	case "session.next.tool.failed":
		return new(ToolFailed)
	case "session.next.retried":
		return new(Retried)
	case "session.next.compaction.ended":
		return new(CompactionEnded)
	}
	return nil
}

// rawEvent is the JSON form of an event.
type rawEvent struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Durable struct {
		Seq int64 `json:"seq"`
	} `json:"durable"`
	Data json.RawMessage `json:"data"`
}

// ParseEvent parses an event. With an error it returns the readable fields, without data.
func ParseEvent(line []byte) (Event, error) {
	var raw rawEvent
	if err := json.Unmarshal(line, &raw); err != nil {
		return Event{}, fmt.Errorf("opencode: an event cannot be read: %w", err)
	}
	e := Event{ID: raw.ID, Type: raw.Type, Seq: raw.Durable.Seq}
	data := newData(raw.Type)
	if data == nil {
		return e, nil
	}
	var common struct {
		Timestamp float64 `json:"timestamp"`
	}
	err := json.Unmarshal(raw.Data, &common)
	if err == nil {
		err = json.Unmarshal(raw.Data, data)
	}
	if err != nil {
		return e, fmt.Errorf("opencode: event %d, %.60q, cannot be read: %w", e.Seq, e.Type, err)
	}
	e.At, e.Data = time.UnixMilli(int64(min(max(common.Timestamp, 0), maxTime))).UTC(), data
	return e, nil
}

// maxTime is the year 9999, in ms. Later times cannot be formatted.
const maxTime = 253370764800000

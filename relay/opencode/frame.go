package opencode

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"teambridge/relay/agent"
)

// line is a message in the form that is stored and sent.
type line struct {
	ID       string `json:"id"` // OpenCode's id of the message
	Prompt   prompt `json:"prompt"`
	Delivery string `json:"delivery"`
}

type prompt struct {
	Text string `json:"text"`
}

// Encode encodes a text under an id, which is a UUID.
func (r *Runtime) Encode(uuid, text string) ([]byte, error) {
	l := line{ID: MessageID(uuid), Prompt: prompt{text}, Delivery: "queue"}
	if id, ok := UUID(l.ID); !ok || id != uuid {
		return nil, fmt.Errorf("opencode: %.60q is not a UUID", uuid)
	}
	data, err := json.Marshal(l)
	switch {
	case err != nil:
		return nil, fmt.Errorf("opencode: %w", err)
	case strings.TrimSpace(text) == "":
		return nil, errors.New("opencode: the message is empty")
	case len(data) > maxLine:
		return nil, fmt.Errorf("opencode: the message is too large: %d bytes, at most %d", len(data), maxLine)
	}
	return data, nil
}

// Frame parses a line of [Runtime.Encode].
func (r *Runtime) Frame(data []byte) (agent.Frame, error) {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return agent.Frame{}, fmt.Errorf("opencode: a message cannot be read: %w", err)
	}
	uuid, ok := UUID(l.ID)
	if !ok || l.Delivery != "queue" {
		return agent.Frame{}, fmt.Errorf("opencode: %.60q is not one of our messages", l.ID)
	}
	return agent.Frame{UUID: uuid, Line: data}, nil
}

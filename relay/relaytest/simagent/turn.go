package simagent

import (
	"context"
	"time"
)

// Handler stands in for a model: it decides what an agent does in a turn. It may
// block; ctx ends with the agent. It is never called twice at a time for one
// agent.
type Handler func(ctx context.Context, turn Turn) Reply

// Turn is the input of an agent's turn.
type Turn struct {
	Prompt string  // the member's own prompt, in its first turn; else ""
	Rows   []Taken // at least one, unless there is a Prompt
}

// Reply is the result of a turn. The zero Reply ends the turn at once, without a
// message.
type Reply struct {
	Lasts    time.Duration // from the handler's return to the end of the turn
	Messages []Message     // sent in order at the end of the turn
	Text     string        // the turn's final text; newer versions put it into the idle_notification
}

package query

import (
	"encoding/json"
	"errors"
	"fmt"

	"teambridge/relay/wire"
)

// Event is one event of a query. One of its fields is set.
type Event struct {
	Envelope *wire.Envelope // input or output of the agent
	Error    *Failure       // what went wrong
	Result   *Result        // how the query ended: the last event
}

// MarshalJSON returns an envelope as it is. The others have a key "type".
func (e Event) MarshalJSON() ([]byte, error) {
	type failure struct {
		Type string `json:"type"`
		*Failure
	}
	type result struct {
		Type string `json:"type"`
		*Result
	}
	switch {
	case e.Envelope != nil:
		return json.Marshal(e.Envelope)
	case e.Error != nil:
		return json.Marshal(failure{"error", e.Error})
	}
	return json.Marshal(result{"result", e.Result})
}

// Failure is what went wrong.
type Failure struct {
	Line    int    `json:"line,omitempty"` // of the input, from 1, if it is about one
	Message string `json:"message"`
}

// Status is how a query ended.
type Status string

const (
	Completed   Status = "completed"   // each turn was
	Failed      Status = "failed"      // a turn, or the agent
	Interrupted Status = "interrupted" // the context or the client ended
)

// Result is how a query ended.
type Result struct {
	Text      string      `json:"text"`      // the agent's last text
	SessionID string      `json:"sessionId"` // for the [Input] of a later query; empty if there is no session
	Status    Status      `json:"status"`
	Failure   string      `json:"failure,omitempty"` // why it failed or was interrupted
	Turns     int         `json:"turns"`             // that were begun
	Usage     *wire.Usage `json:"usage,omitempty"`   // of all turns; nil if the agent did not report it
}

// The errors of a query, besides *[InputError], *[TurnError] and that of its context.
var (
	// ErrNoSession means that there is no session with that id, or not in that directory.
	ErrNoSession = errors.New("no such session")
	// ErrClosed means that the client was closed.
	ErrClosed = errors.New("the client was closed")
	// ErrAgentEnded means that the agent ended in the middle of a query.
	ErrAgentEnded = errors.New("the agent ended in the middle of the query")
)

// TurnError means that a turn of the agent failed.
type TurnError struct {
	Reason string // the agent's words
}

func (e *TurnError) Error() string { return fmt.Sprintf("the turn failed: %s", e.Reason) }

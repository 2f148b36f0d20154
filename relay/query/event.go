package query

import (
	"encoding/json"
	"errors"
	"fmt"

	"teambridge/relay/wire"
)

// Event is one event of a query. Exactly one of its fields is set.
type Event struct {
	Envelope *wire.Envelope // input or output of the agent
	Error    *Failure       // an error
	Result   *Result        // the result: the last event
}

// MarshalJSON returns an envelope unchanged. Other events have a key "type".
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

// Failure is an error of a query.
type Failure struct {
	Line    int    `json:"line,omitempty"` // the line of the input, from 1, if the error is about one
	Message string `json:"message"`
}

// Status is the outcome of a query.
type Status string

const (
	Completed   Status = "completed"   // each turn was completed
	Failed      Status = "failed"      // a turn or the agent failed
	Interrupted Status = "interrupted" // the context or the client ended
)

// Result is the outcome of a query.
type Result struct {
	Text      string      `json:"text"`      // the agent's last text
	SessionID string      `json:"sessionId"` // for the [Input] of a later query; empty if there is no session
	Status    Status      `json:"status"`
	Failure   string      `json:"failure,omitempty"` // why the query failed or was interrupted
	Turns     int         `json:"turns"`             // the number of begun turns
	Usage     *wire.Usage `json:"usage,omitempty"`   // the sum of all turns; nil if the agent did not report it
}

// The errors of a query, besides *[InputError], *[TurnError] and the error of its context.
var (
	// ErrNoSession means that no session has that id in that directory.
	ErrNoSession = errors.New("no such session")
	// ErrClosed means that the client was closed.
	ErrClosed = errors.New("the client was closed")
	// ErrAgentEnded means that the agent ended in the middle of a query.
	ErrAgentEnded = errors.New("the agent ended in the middle of the query")
)

// TurnError means that a turn of the agent failed.
type TurnError struct {
	Reason string // the agent's own words
}

func (e *TurnError) Error() string { return fmt.Sprintf("the turn failed: %s", e.Reason) }

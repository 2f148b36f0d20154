package query

import (
	"encoding/json"
	"errors"
	"fmt"

	"teambridge/relay/wire"
)

// Event is one thing that a query tells. One of its fields is set.
type Event struct {
	Envelope *wire.Envelope // what the agent was told, said or did
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
	Text      string      `json:"text"`      // what the agent said last
	SessionID string      `json:"sessionId"` // of [Input], to go on with; empty: there is no session
	Status    Status      `json:"status"`
	Failure   string      `json:"failure,omitempty"` // why it failed or was interrupted
	Turns     int         `json:"turns"`             // that were begun
	Usage     *wire.Usage `json:"usage,omitempty"`   // of all turns; nil if the agent did not tell
}

// The errors of a query, besides *[InputError], *[TurnError] and that of its context.
var (
	// ErrNoSession says that there is no session of that id, or not for that directory.
	ErrNoSession = errors.New("no such session")
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("the client was closed")
	// ErrAgentEnded says that the agent ended in the middle of a query.
	ErrAgentEnded = errors.New("the agent ended in the middle of the query")
)

// TurnError says that a turn of the agent failed.
type TurnError struct {
	Reason string // the agent's words
}

func (e *TurnError) Error() string { return fmt.Sprintf("the turn failed: %s", e.Reason) }

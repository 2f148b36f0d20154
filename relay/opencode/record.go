package opencode

import (
	"encoding/json"
	"strings"

	"teambridge/relay/agent"
)

// finishTools is the finish reason of a step after which the model gets the results of tools.
const finishTools = "tool-calls"

// record is an event of a session, as read.
type record struct {
	Event
	raw    json.RawMessage
	missed bool // this event or an earlier one could not be read
}

// parseRecord parses an event. An event of unknown form loses its data.
func parseRecord(raw []byte) (record, error) {
	e, err := ParseEvent(raw)
	if err != nil && e.Seq == 0 {
		return record{}, err
	}
	return record{e, raw, err != nil}, nil
}

// turn is the state of a message's turn, as far as the events show it.
type turn struct {
	finish  string // finish reason of its last step; "" while a step runs
	failure string // of its last step
	text    string // the last text of its last step
}

func (t *turn) add(r record) {
	switch d := r.Data.(type) {
	case *StepStarted:
		*t = turn{text: t.text}
	case *Retried:
		t.failure = ""
	case *StepEnded:
		t.finish, t.failure = d.Finish, ""
	case *StepFailed:
		t.finish, t.failure = "", d.Error.Message
		if t.failure == "" {
			t.failure = "the model failed"
		}
	case *TextEnded:
		if strings.TrimSpace(d.Text) != "" {
			t.text = d.Text
		}
	}
}

// over reports whether the last step ends the turn.
func (t *turn) over() bool { return t.failure != "" || t.finish != "" && t.finish != finishTools }

// after returns the state of the turn if the server has ended in the middle of it.
func (t *turn) after() agent.Turn {
	a := agent.Turn{Stored: true}
	switch {
	case t.failure != "":
		a.Failed, a.Failure = true, t.failure
	case t.over():
		a.Finished, a.Text = true, t.text
	case t.finish == finishTools:
		a.Stop = "tool_use"
	}
	return a
}

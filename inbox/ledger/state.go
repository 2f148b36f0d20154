package ledger

import "fmt"

// DeliveryState is the progress of a delivery or a frame.
type DeliveryState string

// The states. A frame is never claimed, dropped or taken by the agent.
const (
	Claimed      DeliveryState = "claimed"        // in the ledger and in no frame
	FrameWritten DeliveryState = "written"        // in a frame that may have reached the agent
	Accepted     DeliveryState = "accepted"       // the agent began a turn with it
	Cut          DeliveryState = "cut"            // the turn was cut; a nudge is to continue it
	Done         DeliveryState = "done"           // the turn ended
	Cancelled    DeliveryState = "cancelled"      // a person interrupted it, or took it back
	Failed       DeliveryState = "failed"         // given up; the reason says why
	Dropped      DeliveryState = "dropped"        // a person does not want it delivered
	TakenByAgent DeliveryState = "taken_by_agent" // the agent read its inbox itself
	Skipped      DeliveryState = "skipped"        // a row that is not for the agent; the reason says why
)

// Ended reports whether only a person can still change the state: done, cancelled, failed, dropped, taken_by_agent or
// skipped.
func (s DeliveryState) Ended() bool {
	switch s {
	case Done, Cancelled, Failed, Dropped, TakenByAgent, Skipped:
		return true
	}
	return false
}

// unended is the SQL condition for not Ended. It is spelled as in the indexes of the schema.
const unended = "state IN ('claimed', 'written', 'accepted', 'cut')"

// A StateError refuses a step that the state of a delivery or a frame does not allow.
// Nothing was changed.
type StateError struct {
	Op    string // commit, advance, end, retry, drop …
	UUID  string // of the delivery or frame that does not allow the step
	State DeliveryState
	Frame string // of the delivery, "" for none
	Want  string // what the step would need, or what to do
}

// Error describes the refused step, the reason, and what the step would need.
func (e *StateError) Error() string {
	in := ""
	if e.Frame != "" {
		in = " in frame " + e.Frame
	}
	return fmt.Sprintf("ledger: %s: %s is %s%s; %s", e.Op, e.UUID, e.State, in, e.Want)
}

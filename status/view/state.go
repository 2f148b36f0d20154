package view

import (
	"teambridge/inbox/ledger"
	"teambridge/status/api"
)

// State returns the word that people read for a state of a message: the same for each way in which it travels.
func State(of string) string {
	switch of {
	case api.Queued, api.Stored, string(ledger.Claimed), string(ledger.EventHeld):
		return "waiting"
	case api.Verified, api.Received, string(ledger.FrameWritten):
		return "sent"
	case api.Consumed, api.Confirmed, string(ledger.TakenByAgent):
		return "received"
	case string(ledger.Accepted), string(ledger.Cut), string(ledger.EventGiven):
		return "seen"
	case string(ledger.EventFinished):
		return "done"
	case api.NotSent, api.Failed, "refused":
		return "not sent"
	case api.Unconfirmed:
		return "unknown"
	case string(ledger.Dropped):
		return "given up"
	case string(ledger.Skipped):
		return "not relayed"
	}
	return of // of waiting, seen, done, lost, unknown and cancelled, it is the same
}

// outcome says what became of a message. headless: of a delivery to a headless agent, whose turn tells it; else it is typed
// into a pane, written to a session, or sent to another machine.
func outcome(state, reason string, headless bool) api.Outcome {
	cause, why := ledger.SplitReason(reason)
	o := api.Outcome{Word: State(state), Why: why}
	switch s := ledger.DeliveryState(state); {
	case s == ledger.Failed && (cause == ledger.CauseUnknown || cause == ledger.CauseLost):
		o.Word = string(cause)
	case s == ledger.Failed && cause == "" && headless:
		o.Word = "failed" // the agent may have worked on it
	case s == ledger.Cut:
		return api.Outcome{Word: o.Word, Why: "its turn was cut off"}
	case s == ledger.Done && !headless: // nothing tells yet that the model was given it
		o.Word = State(api.Confirmed)
	case !headless && (s == ledger.FrameWritten || s == ledger.Accepted):
		return api.Outcome{Word: State(api.Waiting), Why: "it is being delivered"}
	}
	switch o.Word {
	case "sent", "received", "seen", "done": // the reason is how that is known
		o.Why = ""
	}
	return o
}

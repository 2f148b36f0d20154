package view

import (
	"teambridge/inbox/ledger"
	"teambridge/status/api"
)

// State returns the word that people read for a state of a message. The word is the same for every way of delivery.
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
	return of // waiting, seen, done, lost, unknown and cancelled are words already
}

// outcome returns the outcome of a message. headless means a delivery to a headless agent, whose turn shows the
// outcome. Other messages are typed into a pane, written to a session, or sent to another machine.
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
	case s == ledger.Done && !headless: // nothing shows yet that the model got it
		o.Word = State(api.Confirmed)
	case !headless && (s == ledger.FrameWritten || s == ledger.Accepted):
		return api.Outcome{Word: State(api.Waiting), Why: "it is being delivered"}
	}
	switch o.Word {
	case "sent", "received", "seen", "done": // here, the reason only explains how the outcome is known
		o.Why = ""
	}
	return o
}

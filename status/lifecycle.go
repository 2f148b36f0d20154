package status

import (
	"encoding/json"
	"strings"

	"teambridge/inbox"
)

// system is the sender name of Claude Code itself.
const system = "system"

// Lifecycle is a row's statement about the work or the end of one member.
//
// Anybody can write anything into an inbox, so the sender matters. A member's statements about itself count,
// and so do Claude Code's, sent as "system". A statement about another member is hearsay: it counts only if
// config.json agrees.
type Lifecycle struct {
	Kind    string // the type of the object, such as shutdown_approved
	Member  string // its subject
	Hearsay bool

	Ends    bool // the member has shut down
	Refuses bool // the member refuses to shut down
	Asks    bool // the member is asked to shut down

	// From an idle_notification: how and why the turn ended.
	IdleReason, Result, FailureReason string
	WroteTo                           string // a member that it sent a message to in that turn; empty: none
}

// LifecycleOf returns a row's statement about the life of a member. ok is false if the row makes none.
func LifecycleOf(e *inbox.Entry) (l Lifecycle, ok bool) {
	l.Kind = e.Kind()
	switch l.Kind {
	case "idle_notification", "shutdown_approved", "shutdown_response", "shutdown_rejected", "shutdown_request", "teammate_terminated":
	default:
		return Lifecycle{}, false
	}
	var o object
	if json.Unmarshal([]byte(e.Text), &o) != nil {
		return Lifecycle{}, false
	}
	// The object names the member that it is about, usually its sender.
	l.Member = e.From
	if from, there := o["from"]; there && l.Kind != "shutdown_request" && l.Kind != "teammate_terminated" {
		if l.Member = o.text("from"); l.Member == "" && string(from) == `""` {
			l.Member = e.From
		}
	}
	switch l.Kind {
	case "idle_notification":
		l.IdleReason, l.Result, l.FailureReason = o.text("idleReason"), o.text("result"), o.text("failureReason")
		if to, ok := strings.CutPrefix(o.text("summary"), "[to "); ok {
			l.WroteTo, _, _ = strings.Cut(to, "]")
		}
	case "shutdown_approved":
		l.Ends = true
	case "shutdown_response":
		l.Ends = o.truth("approve") || o.truth("approved")
		l.Refuses = !l.Ends
	case "shutdown_rejected":
		l.Refuses = true
	case "shutdown_request":
		l.Member, l.Asks = e.Inbox, true
		return l, e.From != "" && e.From != e.Inbox
	case "teammate_terminated":
		// Only the text has the name: "NAME has shut down."
		l.Member, l.Ends = strings.CutSuffix(strings.TrimSuffix(o.text("message"), "."), " has shut down")
	}
	if l.Member == "" || l.Kind == "teammate_terminated" && !l.Ends || e.From == system && l.Member == system {
		return Lifecycle{}, false
	}
	l.Hearsay = e.From != l.Member && e.From != system
	return l, true
}

// object is a JSON object as JavaScript reads it: keys are case-sensitive, and the last of equal keys counts. A field
// with an unexpected type counts as missing.
type object map[string]json.RawMessage

func (o object) text(key string) (s string) {
	if json.Unmarshal(o[key], &s) != nil {
		return ""
	}
	return s
}

func (o object) truth(key string) (b bool) {
	return json.Unmarshal(o[key], &b) == nil && b
}

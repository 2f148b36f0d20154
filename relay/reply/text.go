package reply

import (
	"fmt"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/teams/rawjson"
)

const idleKind = "idle_notification"

// fit makes a message of an agent's text. Claude Code would obey a text that is an object of its protocol,
// and an inbox refuses one that is too large.
func fit(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if inbox.ProtocolType(text) != "" {
		text = "The answer is:\n" + text
	}
	whole := text
	for limit := inbox.MaxText; ; limit -= limit / 8 {
		m := inbox.Message{From: "agent", Text: text}
		if m.Check() == nil {
			return text
		}
		note := fmt.Sprintf("\n[The answer is cut off: it has %d bytes.]", len(whole))
		text = strings.ToValidUTF8(whole[:min(len(whole), limit)-len(note)], "") + note
	}
}

// idle returns the idle_notification of a turn without an answer.
func idle(from string, reply ledger.Reply) ([]byte, error) {
	n := struct {
		Type          string `json:"type"`
		From          string `json:"from"`
		Timestamp     string `json:"timestamp"`
		IdleReason    string `json:"idleReason"`
		FailureReason string `json:"failureReason,omitempty"`
	}{Type: idleKind, From: from, Timestamp: timestamp(reply.At), IdleReason: "available"}
	switch reply.State {
	case ledger.Failed:
		n.IdleReason, n.FailureReason = "failed", cut(reply.Reason)
	case ledger.Cancelled:
		n.IdleReason = "interrupted"
	}
	return rawjson.Encode(n)
}

// approval returns the shutdown_approved for a request.
func approval(from, request string, at time.Time) ([]byte, error) {
	return rawjson.Encode(struct {
		Type        string `json:"type"`
		RequestID   string `json:"requestId"`
		From        string `json:"from"`
		Timestamp   string `json:"timestamp"`
		PaneID      string `json:"paneId"`
		BackendType string `json:"backendType"`
	}{"shutdown_approved", request, from, timestamp(at), "in-process", "in-process"})
}

func timestamp(at time.Time) string { return at.UTC().Format(inbox.TimestampLayout) }

// cut limits the length of a text from outside.
func cut(text string) string {
	const limit = 1 << 10
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

package session

import (
	"encoding/json"
	"slices"
	"strings"

	"teambridge/relay/agent"
	"teambridge/relay/wire"
	"teambridge/teams/transcript"
)

// resultMeta is the data that is printed next to the result of a tool.
type resultMeta struct {
	ID       string
	Kind     string              `json:"non_execution_kind"`
	Decision transcript.Decision `json:"permission_decision"`
}

// maxDenied bounds the denials that are remembered. Many questions are open at once only if
// subagents ask.
const maxDenied = 256

// outcome returns how a call has ended, from its result b in the record r.
func (c *conversation) outcome(r *Line, done *call, b transcript.Block) wire.Outcome {
	var result struct {
		IsAsync          bool
		Status           string
		BackgroundTaskID string
		Success          *bool
	}
	for _, raw := range []json.RawMessage{r.ToolResult, r.LiveResult} {
		_ = json.Unmarshal(raw, &result) // many are texts, or of another form
	}
	text := ""
	if b.IsError {
		text = texts(b.Content)
	}
	switch {
	case slices.Contains(c.denied, done.id):
		return wire.OutcomeDenied
	case b.IsError && r.stopped(text):
		return wire.OutcomeCut
	case b.IsError && r.refused(b.ToolUseID, text):
		return wire.OutcomeDenied
	case b.IsError, done.tool == "SendMessage" && result.Success != nil && !*result.Success: // it has no recipient
		return wire.OutcomeFailed
	case result.IsAsync, result.BackgroundTaskID != "", result.Status == "async_launched", result.Status == "teammate_spawned":
		return wire.OutcomeStarted
	}
	return wire.OutcomeDone
}

// stopped reports whether an error says that the call was interrupted, or that nobody answered the
// question whether it may run. Most versions record the same text for a call that a person rejects at
// the terminal and for one that is interrupted while it runs. In a headless session it means an interrupt.
func (r *Line) stopped(text string) bool {
	if strings.HasPrefix(text, "The user doesn't want to proceed with this tool use.") {
		atTerminal := r.BeforeRun && !strings.HasPrefix(r.Entrypoint, "sdk")
		return !atTerminal && !strings.Contains(text, "the user said:")
	}
	return r.DenialKind == "interrupted" || // when the session was resumed
		strings.HasPrefix(text, "Tool permission request failed") || strings.HasPrefix(text, "The user doesn't want to take this action right now.") ||
		strings.Contains(text, transcript.Interruption)
}

// refused reports whether an error says that the tool was not allowed. In transcripts of outdated versions and of
// other programs, only the text shows it.
func (r *Line) refused(id, text string) bool {
	if r.DenialKind != "" || r.Decision.Decision == "reject" {
		return true
	}
	for _, m := range r.Results {
		if m.ID == id && (m.Kind != "" || m.Decision.Decision == "reject") {
			return true
		}
	}
	line, _, _ := strings.Cut(text, "\n") // the output of a command begins in the second
	return agent.IsDenial(text) || slices.ContainsFunc(refusals, func(s string) bool { return strings.Contains(line, s) })
}

// refusals are parts of the texts with which Claude Code itself refuses a tool.
var refusals = []string{
	"Permission to use ", "Permission for this ", "Claude requested permissions to ", "was blocked. For security, Claude Code may only",
	"denied by your permission settings", "PreToolUse:",
}

package session

import (
	"encoding/json"
	"slices"
	"strings"

	"teambridge/relay/agent"
	"teambridge/relay/wire"
	"teambridge/teams/transcript"
)

// resultMeta is what is printed next to the results of tools.
type resultMeta struct {
	ID       string
	Kind     string              `json:"non_execution_kind"`
	Decision transcript.Decision `json:"permission_decision"`
}

// maxDenied bounds the denials that are remembered. Many questions are open at once only if
// subagents ask.
const maxDenied = 256

// outcome is how a call has ended, by its result b in the record r.
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
	case b.IsError, done.tool == "SendMessage" && result.Success != nil && !*result.Success: // to nobody
		return wire.OutcomeFailed
	case result.IsAsync, result.BackgroundTaskID != "", result.Status == "async_launched", result.Status == "teammate_spawned":
		return wire.OutcomeStarted
	}
	return wire.OutcomeDone
}

// stopped reports whether an error says that the call was interrupted, or that nobody answered the
// question whether it may run. Most versions record the same of a call that a person rejects at
// the terminal and of one that is interrupted while it runs; in a headless session it is an interrupt.
func (r *Line) stopped(text string) bool {
	if strings.HasPrefix(text, "The user doesn't want to proceed with this tool use.") {
		atTerminal := r.BeforeRun && !strings.HasPrefix(r.Entrypoint, "sdk")
		return !atTerminal && !strings.Contains(text, "the user said:")
	}
	return r.DenialKind == "interrupted" || // when the session was resumed
		strings.HasPrefix(text, "Tool permission request failed") || strings.HasPrefix(text, "The user doesn't want to take this action right now.") ||
		strings.Contains(text, transcript.Interruption)
}

// refused reports whether an error says that the tool was not allowed. In the transcript of an outdated version, and of
// another program, only the text tells.
func (r *Line) refused(id, text string) bool {
	if r.DenialKind != "" || r.Decision.Decision == "reject" {
		return true
	}
	for _, m := range r.Results {
		if m.ID == id && (m.Kind != "" || m.Decision.Decision == "reject") {
			return true
		}
	}
	line, _, _ := strings.Cut(text, "\n") // what a command printed begins in the second
	return agent.IsDenial(text) || slices.ContainsFunc(refusals, func(s string) bool { return strings.Contains(line, s) })
}

// refusals are in the texts with which Claude Code itself refuses a tool.
var refusals = []string{
	"Permission to use ", "Permission for this ", "Claude requested permissions to ", "was blocked. For security, Claude Code may only",
	"denied by your permission settings", "PreToolUse:",
}

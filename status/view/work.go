package view

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/claude/interactive"
	"teambridge/relay/claude/session"
	"teambridge/relay/process"
	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
	"teambridge/status/api"
)

// Kinds of envelopes. Each of shownEvents is one record in a conversation. The end of a tool call changes the record
// of its start.
const (
	eventText      = "text"
	eventToolStart = "tool-call-start"
	eventToolEnd   = "tool-call-end"
	eventTurnEnd   = "turn-end"
)

var shownEvents = []string{eventText, eventToolStart, "file", "service", eventTurnEnd}

// Works yields the work of agents that q selects, as records, with or without their thinking. l, which may be nil,
// is used to see which agents have ended.
func Works(ctx context.Context, j *journal.Journal, l *ledger.Ledger, q journal.Query, thinking bool) iter.Seq2[api.Record, error] {
	return journal.Map(j.Envelopes.All(ctx, ofAgents(q)), func(e journal.Envelope) (*api.Record, error) {
		return shownWork(ctx, j, l, e, thinking)
	})
}

// WorkHits is Works for records that contain all of words, the newest first.
func WorkHits(ctx context.Context, j *journal.Journal, l *ledger.Ledger, words string, q journal.Query, thinking bool) iter.Seq2[api.Hit, error] {
	return journal.Map(j.Envelopes.Search(ctx, words, ofAgents(q)), func(h journal.EnvelopeHit) (*api.Hit, error) {
		r, err := shownWork(ctx, j, l, h.Envelope, thinking)
		if err != nil || r == nil {
			return nil, err
		}
		if r.Kind == api.KindTool {
			h.Excerpt = sayExcerpt(h.Excerpt, h.Text(), wire.Outcome(r.Work.State))
		}
		return new(Hit(h.Excerpt, *r)), nil
	})
}

// sayExcerpt rewrites an excerpt of a tool call's title for the outcome of the call.
func sayExcerpt(x journal.Excerpt, title string, became wire.Outcome) journal.Excerpt {
	if !strings.Contains(title, strings.Trim(x.Snippet, "…")) {
		return x // the agent's name matched, not the title
	}
	head, object, tail := toolcall.Sentence(title, became)
	if verb := strings.TrimSuffix(title, object); verb != "" && strings.HasPrefix(x.Snippet, verb) {
		longer := len(head) - len(verb)
		x.Snippet = head + strings.TrimPrefix(x.Snippet, verb)
		x.Matches = slices.DeleteFunc(slices.Clone(x.Matches), func(m [2]int) bool { return m[0] < len(verb) })
		for i := range x.Matches {
			x.Matches[i][0], x.Matches[i][1] = x.Matches[i][0]+longer, x.Matches[i][1]+longer
		}
	}
	x.Snippet += tail
	return x
}

func ofAgents(q journal.Query) journal.EnvelopeQuery {
	return journal.EnvelopeQuery{Query: q, Role: string(wire.RoleAgent), Kinds: shownEvents}
}

func shownWork(ctx context.Context, j *journal.Journal, l *ledger.Ledger, e journal.Envelope, thinking bool) (*api.Record, error) {
	r, err := Work(ctx, j, l, e)
	if r != nil && r.Kind == api.KindThinking && !thinking {
		return nil, err
	}
	return r, err
}

// Envelope converts an envelope of the journal, with the record that it creates or changes.
func Envelope(ctx context.Context, j *journal.Journal, l *ledger.Ledger, e journal.Envelope) (api.Envelope, error) {
	shown := api.Envelope{
		Seq: e.Seq, Team: e.Team, CreatedAt: e.CreatedAt, Member: e.Inbox, Session: e.Session, Envelope: e.Raw,
	}
	if e.Kind == eventToolEnd {
		q := about(e, journal.Query{Before: e.Seq, Newest: true}, eventToolStart)
		q.Call = e.Call
		start, found, err := one(j.Envelopes.All(ctx, q))
		if err != nil || !found {
			return shown, err
		}
		e = start
	}
	var err error
	shown.Record, err = Work(ctx, j, l, e)
	return shown, err
}

// Work converts an envelope to a record of the conversation. It returns nil for envelopes that a conversation leaves
// out: those of the user, the start and end of a turn or subagent, the end of a tool call (it is in the record of the
// start), and the last text of a turn whose answer is recorded.
func Work(ctx context.Context, j *journal.Journal, l *ledger.Ledger, e journal.Envelope) (*api.Record, error) {
	var envelope wire.Envelope
	if e.Role != string(wire.RoleAgent) || json.Unmarshal(e.Raw, &envelope) != nil { // a later version wrote it
		return nil, nil
	}
	work := &api.Work{Envelope: e.ID, Session: e.Session, Turn: e.Turn, Subagent: e.Subagent, State: api.WorkDone}
	var kind, text string
	switch event := envelope.Event.(type) {
	case *wire.Text:
		kind, text = api.KindText, event.Text
		if thinking(event) {
			kind = api.KindThinking
			break
		}
		if answer, err := isAnswer(ctx, j, e, text); err != nil || answer {
			return nil, err
		}
	case *wire.ToolCallStart:
		kind, work.Tool, work.Call = api.KindTool, event.Name, event.Call
		work.Starts = session.Subagent(event.Name, event.Call)
		took, err := end(ctx, j, l, e, work)
		if err != nil {
			return nil, err
		}
		text = toolText(event, work.State, took)
	case *wire.File:
		kind, text = api.KindFile, "file `"+oneLine(cmp.Or(event.Ref, event.Name))+"`"
		if event.Size > 0 { // 0: unknown
			text += " · " + size(event.Size)
		}
	case *wire.Service:
		kind, text = api.KindService, event.Text
	case *wire.TurnEnd:
		if event.Status == wire.TurnCompleted {
			return nil, nil
		}
		kind, work.State, text = api.KindTurn, string(event.Status), "the turn "+map[wire.TurnStatus]string{
			wire.TurnFailed: "failed", wire.TurnCancelled: "was cancelled",
		}[event.Status]
	default:
		return nil, nil
	}
	return &api.Record{
		Message: api.Message{
			Team: e.Team, Inbox: e.Inbox, ID: e.ID, From: e.Inbox, Text: text, Timestamp: e.At.Format("2006-01-02T15:04:05.000Z"),
			Read: true, Kind: kind, Gone: true, // it was never in the inbox
		},
		Seq: e.Seq, CreatedAt: e.CreatedAt, FirstSeen: e.At, GoneAt: &e.At, Work: work,
	}, nil
}

func thinking(t *wire.Text) bool { return t.Thinking != nil && *t.Thinking }

// about returns the query for other envelopes of e's agent.
func about(e journal.Envelope, q journal.Query, kinds ...string) journal.EnvelopeQuery {
	q.Root, q.Team, q.CreatedAt, q.Inbox = e.Root, e.Team, e.CreatedAt, e.Inbox
	return journal.EnvelopeQuery{Query: q, Role: string(wire.RoleAgent), Kinds: kinds}
}

// one returns the first of items, and whether there is one.
func one[T any](items iter.Seq2[T, error]) (item T, found bool, err error) {
	for item, err = range items {
		return item, err == nil, err
	}
	return item, false, nil
}

// isAnswer reports whether a text repeats the recorded answer of its turn, which is shown as a message: it is the
// agent's last text in the turn, and equal. Turns in a transcript have other ids than the answered frames; for them,
// the answer is found by its time.
func isAnswer(ctx context.Context, j *journal.Journal, e journal.Envelope, text string) (bool, error) {
	if e.Turn == "" || e.Subagent != "" {
		return false, nil
	}
	is := func(answer journal.Record) bool {
		said, kept := strings.TrimSpace(text), strings.TrimSpace(answer.Text)
		return said == kept || answer.Truncated() && strings.HasPrefix(said, kept)
	}
	answer, found, err := j.Messages.AnswerTo(ctx, e.Turn)
	if err == nil && !found {
		then, err := j.Messages.AnswersAt(ctx, e.InboxKey, e.At)
		return slices.ContainsFunc(then, is), err
	}
	if err != nil || answer.Inbox != e.Inbox || !is(answer) {
		return false, err
	}
	q := about(e, journal.Query{After: e.Seq}, eventText)
	q.Turn = e.Turn
	for later, err := range j.Envelopes.All(ctx, q) {
		var envelope wire.Envelope
		if err != nil {
			return false, err
		}
		if later.Subagent != "" || json.Unmarshal(later.Raw, &envelope) != nil {
			continue
		}
		if t, ok := envelope.Event.(*wire.Text); ok && !thinking(t) {
			return false, nil
		}
	}
	return true, nil
}

// end sets in work whether and how a tool call has ended. It returns how long the call took, or 0 if that is unknown.
func end(ctx context.Context, j *journal.Journal, l *ledger.Ledger, start journal.Envelope, work *api.Work) (took time.Duration, err error) {
	q := about(start, journal.Query{After: start.Seq, Limit: 1}, eventToolEnd)
	q.Call = start.Call
	e, found, err := one(j.Envelopes.All(ctx, q))
	if err != nil {
		return 0, err
	}
	if found {
		work.Ended, work.State = &e.At, api.WorkUnknown
		var envelope wire.Envelope
		if json.Unmarshal(e.Raw, &envelope) == nil {
			if event, ok := envelope.Event.(*wire.ToolCallEnd); ok {
				work.State = cmp.Or(string(event.Outcome), api.WorkUnknown)
			}
		}
		return e.At.Sub(start.At), nil
	}
	if start.Turn != "" {
		q.Call, q.Turn, q.Kinds = "", start.Turn, []string{eventTurnEnd}
		if _, found, err = one(j.Envelopes.All(ctx, q)); err != nil {
			return 0, err
		}
	}
	if !found {
		if found, err = agentEnded(ctx, l, start); err != nil {
			return 0, err
		}
	}
	if work.State = api.WorkRunning; found {
		work.State = api.WorkCut
	}
	return 0, nil
}

// agentEnded reports whether the agent of e has ended. If its relay was killed, the end of its tool calls was not
// recorded. l may be nil.
func agentEnded(ctx context.Context, l *ledger.Ledger, e journal.Envelope) (bool, error) {
	var s ledger.Session
	if l != nil {
		var err error
		if s, _, err = l.Sessions.Session(ctx, e.InboxKey); err != nil {
			return false, err
		}
	}
	return Ended(e.Root, e.Session, s), nil
}

// Ended reports whether no process runs a session any more. It is false if that is unknown. relayed is the last
// session of the agent's relay, if it has one.
func Ended(root, session string, relayed ledger.Session) bool {
	if relayed.ID != session || relayed.PID == 0 {
		return interactive.Ended(root, session)
	}
	alive, err := process.Predecessor{PID: relayed.PID, Group: relayed.Group, Start: relayed.Start}.Alive()
	return !alive && err == nil
}

// toolText returns the line of a tool call, such as "ran `go test ./...` · 12 s". It claims that something was done
// only if the call succeeded.
func toolText(t *wire.ToolCallStart, state string, took time.Duration) string {
	text := toolcall.Say(cmp.Or(oneLine(t.Title), "use "+t.Name), wire.Outcome(state))
	switch state {
	case api.WorkDone, api.WorkFailed, api.WorkUnknown:
		if took >= 50*time.Millisecond {
			text += " · " + duration(took)
		}
	}
	return text
}

// ToolCall describes the start of a tool call, such as "runs `go test`". It returns "" for a message to another
// agent, which is not work, and for other envelopes.
func ToolCall(e journal.Envelope) string {
	var envelope wire.Envelope
	if e.Kind != eventToolStart || json.Unmarshal(e.Raw, &envelope) != nil {
		return ""
	}
	call, ok := envelope.Event.(*wire.ToolCallStart)
	if !ok || call.Name == "SendMessage" {
		return ""
	}
	return toolText(call, api.WorkRunning, 0)
}

// ToolCalls yields the tool calls of an agent, the newest first. [ToolCall] describes each.
func ToolCalls(ctx context.Context, j *journal.Journal, q journal.Query) iter.Seq2[journal.Envelope, error] {
	q.Newest = true
	return j.Envelopes.All(ctx, journal.EnvelopeQuery{Query: q, Role: string(wire.RoleAgent), Kinds: []string{eventToolStart}})
}

// oneLine joins the lines of a text.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// duration formats a duration for a person, to a tenth of a second below 10 s.
func duration(d time.Duration) string {
	switch s := int(d.Round(time.Second).Seconds()); {
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	default:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	}
}

// size formats a number of bytes for a person.
func size(bytes float64) string {
	switch {
	case bytes < 1<<10:
		return fmt.Sprintf("%.0f bytes", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", bytes/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", bytes/(1<<20))
	}
}

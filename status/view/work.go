package view

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"teambridge/inbox/journal"
	"teambridge/relay/claude/session"
	"teambridge/relay/wire"
	"teambridge/status/api"
)

// The events of envelopes that a conversation shows, each as one record, and the end of a
// tool call, which changes the record of its start.
const (
	eventText      = "text"
	eventToolStart = "tool-call-start"
	eventToolEnd   = "tool-call-end"
	eventTurnEnd   = "turn-end"
)

var shownEvents = []string{eventText, eventToolStart, "file", "service", eventTurnEnd}

// Works yields what agents said and did, of what q selects, as records: thinking only if it is
// asked for.
func Works(ctx context.Context, j *journal.Journal, q journal.Query, thinking bool) iter.Seq2[api.Record, error] {
	return journal.Map(j.Envelopes(ctx, ofAgents(q)), func(e journal.Envelope) (*api.Record, error) {
		return shownWork(ctx, j, e, thinking)
	})
}

// WorkHits yields those of Works that hold all of words, the newest first.
func WorkHits(ctx context.Context, j *journal.Journal, words string, q journal.Query, thinking bool) iter.Seq2[api.Hit, error] {
	return journal.Map(j.SearchEnvelopes(ctx, words, ofAgents(q)), func(h journal.EnvelopeHit) (*api.Hit, error) {
		r, err := shownWork(ctx, j, h.Envelope, thinking)
		if err != nil || r == nil {
			return nil, err
		}
		return new(Hit(h.Excerpt, *r)), nil
	})
}

func ofAgents(q journal.Query) journal.EnvelopeQuery {
	return journal.EnvelopeQuery{Query: q, Role: string(wire.RoleAgent), Kinds: shownEvents}
}

func shownWork(ctx context.Context, j *journal.Journal, e journal.Envelope, thinking bool) (*api.Record, error) {
	r, err := Work(ctx, j, e)
	if r != nil && r.Kind == api.KindThinking && !thinking {
		return nil, err
	}
	return r, err
}

// Envelope shows an envelope of the journal, with the record that it makes or changes.
func Envelope(ctx context.Context, j *journal.Journal, e journal.Envelope) (api.Envelope, error) {
	shown := api.Envelope{
		Seq: e.Seq, Team: e.Team.Team, CreatedAt: e.Team.CreatedAt, Member: e.Inbox, Session: e.Session, Envelope: e.Raw,
	}
	if e.Kind == eventToolEnd {
		q := about(e, journal.Query{Before: e.Seq, Newest: true}, eventToolStart)
		q.Call = e.Call
		start, found, err := one(j.Envelopes(ctx, q))
		if err != nil || !found {
			return shown, err
		}
		e = start
	}
	var err error
	shown.Record, err = Work(ctx, j, e)
	return shown, err
}

// Work shows an envelope as a conversation does. It returns nil if a conversation does not
// show it: a user's envelope, one that only says that a turn or a subagent starts or ends, the
// end of a tool call, which is in the record of its start, and the last text of a turn whose
// answer is recorded.
func Work(ctx context.Context, j *journal.Journal, e journal.Envelope) (*api.Record, error) {
	var envelope wire.Envelope
	if e.Role != string(wire.RoleAgent) || json.Unmarshal(e.Raw, &envelope) != nil { // by a later version
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
		took, err := end(ctx, j, e, work)
		if err != nil {
			return nil, err
		}
		text = toolText(event, work.State, took)
	case *wire.File:
		kind, text = api.KindFile, "file `"+oneLine(cmp.Or(event.Ref, event.Name))+"`"
		if event.Size > 0 { // 0: not known
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
			Team: e.Team.Team, Inbox: e.Inbox, ID: e.ID, From: e.Inbox, Text: text, Timestamp: e.At.Format("2006-01-02T15:04:05.000Z"),
			Read: true, Kind: kind, Gone: true, // it never was in the inbox
		},
		Seq: e.Seq, CreatedAt: e.Team.CreatedAt, FirstSeen: e.At, GoneAt: &e.At, Work: work,
	}, nil
}

func thinking(t *wire.Text) bool { return t.Thinking != nil && *t.Thinking }

// about asks for other envelopes of the agent of e.
func about(e journal.Envelope, q journal.Query, kinds ...string) journal.EnvelopeQuery {
	q.Root, q.Team, q.CreatedAt, q.Inbox = e.Root, e.Team.Team, e.Team.CreatedAt, e.Inbox
	return journal.EnvelopeQuery{Query: q, Role: string(wire.RoleAgent), Kinds: kinds}
}

// one returns the first of items, and whether there is one.
func one[T any](items iter.Seq2[T, error]) (item T, found bool, err error) {
	for item, err = range items {
		return item, err == nil, err
	}
	return item, false, nil
}

// isAnswer reports whether a text is the answer of its turn, which is shown as a message: the
// last text of the agent itself, with the same words.
func isAnswer(ctx context.Context, j *journal.Journal, e journal.Envelope, text string) (bool, error) {
	if e.Turn == "" || e.Subagent != "" {
		return false, nil
	}
	answer, found, err := j.AnswerTo(ctx, e.Turn)
	if err != nil || !found || answer.Inbox != e.Inbox {
		return false, err
	}
	said, kept := strings.TrimSpace(text), strings.TrimSpace(answer.Text)
	if said != kept && !(answer.Truncated() && strings.HasPrefix(said, kept)) {
		return false, nil
	}
	q := about(e, journal.Query{After: e.Seq}, eventText)
	q.Turn = e.Turn
	for later, err := range j.Envelopes(ctx, q) {
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

// end finds out whether a tool call has ended, and how long it took: 0 if only its turn is known
// to have ended.
func end(ctx context.Context, j *journal.Journal, start journal.Envelope, work *api.Work) (took time.Duration, err error) {
	q := about(start, journal.Query{After: start.Seq, Limit: 1}, eventToolEnd)
	q.Call = start.Call
	e, found, err := one(j.Envelopes(ctx, q))
	if err != nil {
		return 0, err
	}
	if found {
		work.Ended = &e.At
		return e.At.Sub(start.At), nil
	}
	if start.Turn != "" {
		q.Call, q.Turn, q.Kinds = "", start.Turn, []string{eventTurnEnd}
		if _, found, err = one(j.Envelopes(ctx, q)); err != nil {
			return 0, err
		}
	}
	if !found {
		work.State = api.WorkRunning
	}
	return 0, nil
}

// toolText is the line of a tool call. Its title says what was done: ran `go test ./...`.
func toolText(t *wire.ToolCallStart, state string, took time.Duration) string {
	title := cmp.Or(oneLine(t.Title), "used "+t.Name)
	switch verb, _, _ := strings.Cut(title, " "); {
	case state == api.WorkRunning:
		return cmp.Or(present[verb], verb) + strings.TrimPrefix(title, verb)
	case took < 50*time.Millisecond:
		return title
	}
	return title + " · " + duration(took)
}

// present has the verbs of titles as they are said of a call that runs.
var present = map[string]string{
	"ran": "runs", "read": "reads", "wrote": "writes", "edited": "edits", "searched": "searches", "looked": "looks",
	"fetched": "fetches", "used": "uses",
}

// oneLine is a text of several lines as one.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// duration is a time as people say it, to a tenth of a second below 10 s.
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

// size is a number of bytes as people say it.
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

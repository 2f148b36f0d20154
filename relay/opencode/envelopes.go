package opencode

import (
	"encoding/json"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
)

// adapter makes envelopes from the events of a session, in order. The ids of envelopes depend only on the ids
// of messages, tool calls and texts, so events that are read again yield the same envelopes.
//
// A turn begins when a prompt is promoted, and has the prompt's UUID. No event reports the end: the caller
// reports with end that the session is no longer active, or the next turn begins.
type adapter struct {
	dir string // the session's directory; the files of envelopes have paths relative to it
	// marked reports whether a turn was interrupted, or whether a tool call, named by [deniedCall], was
	// denied. Events show no interrupt before the model's first answer, and a denial only as a failure.
	marked func(what string) bool

	at  time.Time
	out []wire.Envelope

	turn    string // the id of the open turn; empty between turns
	over    string // the last turn that ended
	last    ending // how the last answer of the open turn ended
	cutTool bool   // a tool of the last answer was interrupted
	spent   Tokens // the tokens of the open turn's answers
	calls   []call // open calls, in the order of their starts
}

// ending is the way in which an answer of the model ended.
type ending int

const (
	endsNot     ending = iota // it has not ended, or there is no answer
	endsInTools               // the model will be called again
	endsStopped               // a person stopped it
	endsFailed
	endsComplete
)

// call is an open tool call.
type call struct {
	message, id string
	turn        string
	path        string // the file that it writes
	size        float64
}

// Texts by which OpenCode records an interrupted turn.
const (
	stepInterrupted = "Provider turn interrupted"
	toolInterrupted = "Tool execution interrupted"
)

// adapter returns an adapter for a conversation that has no event yet.
func (o Options) adapter(session string) adapter {
	return adapter{dir: o.Dir, marked: func(what string) bool {
		marked, err := o.marked(session, what)
		return marked && err == nil
	}}
}

// event returns the envelopes of an event.
func (a *adapter) event(e Event) []wire.Envelope {
	// A prompt's time may be earlier than the times of events before its promotion.
	if e.At.After(a.at) {
		a.at = e.At
	}
	switch d := e.Data.(type) {
	case *Prompted:
		a.close()
		a.begin(d)
	case *Synthetic:
		a.note(d.MessageID, d.Text)
	case *ShellStarted:
		input, _ := json.Marshal(map[string]string{"command": d.Command}) // a string cannot fail
		a.call(d.MessageID, d.CallID, "bash", input)
	case *ShellEnded:
		a.ended(func(c call) bool { return c.id == d.CallID }, wire.OutcomeDone)
	case *StepStarted:
		a.resume()
		a.last, a.cutTool = endsNot, false
	case *StepEnded:
		a.spent.Input += d.Tokens.Input
		a.spent.Output += d.Tokens.Output
		a.spent.Reasoning += d.Tokens.Reasoning
		a.spent.Cache.Read += d.Tokens.Cache.Read
		a.spent.Cache.Write += d.Tokens.Cache.Write
		switch {
		case d.Finish == finishTools && a.cutTool:
			a.last = endsStopped
		case d.Finish == finishTools:
			a.last = endsInTools
		case d.Finish == "error":
			a.last = endsFailed
		default:
			a.last = endsComplete
		}
	case *StepFailed:
		if a.last = endsStopped; d.Error.Message != stepInterrupted {
			a.last = endsFailed
			a.note(d.MessageID, d.Error.Message)
		}
	case *TextEnded:
		a.said(d.MessageID, d.TextID, d.Text, nil)
	case *ReasoningEnded:
		a.said(d.MessageID, d.ReasoningID, d.Text, new(true))
	case *ToolCalled:
		a.call(d.MessageID, d.CallID, d.Tool, d.Input)
	case *ToolSuccess:
		a.ended(func(c call) bool { return c.message == d.MessageID && c.id == d.CallID }, wire.OutcomeDone)
	case *ToolFailed:
		// A killed server records the same text, but no end of the answer.
		a.cutTool = a.cutTool || d.Error.Message == toolInterrupted
		outcome := wire.OutcomeFailed
		switch {
		case a.marked(deniedCall(d.MessageID, d.CallID)):
			outcome = wire.OutcomeDenied
		case d.Error.Message == toolInterrupted:
			outcome = wire.OutcomeCut
		}
		a.ended(func(c call) bool { return c.message == d.MessageID && c.id == d.CallID }, outcome)
	case *Retried:
		a.note(e.ID, d.Error.Message)
	case *CompactionEnded:
		a.note(d.MessageID, "Conversation compacted")
	}
	return a.take()
}

// end returns the last envelopes, after all earlier events. Call it when the session is no longer active or
// its server is gone.
func (a *adapter) end(at time.Time) []wire.Envelope {
	if at.After(a.at) {
		a.at = at
	}
	a.close()
	return a.take()
}

func (a *adapter) take() []wire.Envelope {
	out := a.out
	a.out = nil
	return out
}

func (a *adapter) envelope(turn, id string, event wire.Event) *wire.Envelope {
	e := wire.Envelope{ID: id, Time: float64(a.at.UnixMilli()), Role: wire.RoleAgent, Event: event}
	if turn != "" {
		e.Turn = &turn
	}
	a.out = append(a.out, e)
	return &a.out[len(a.out)-1]
}

func (a *adapter) begin(p *Prompted) {
	id, ours := UUID(p.MessageID)
	if !ours {
		id = p.MessageID
	}
	if id == "" || id == a.over {
		return // the event names no prompt, or repeats one
	}
	a.turn, a.last, a.cutTool, a.spent = id, endsNot, false, Tokens{}
	a.envelope(id, wire.DerivedID("turn-start", id), new(wire.TurnStart))
	if text := strings.TrimSpace(p.Prompt.Text); text != "" {
		a.envelope(id, wire.DerivedID("text", id, "0"), &wire.Text{Text: toolcall.Cut(text)}).Role = wire.RoleUser
	}
}

// resume reopens the last turn if its end was already reported.
func (a *adapter) resume() {
	if a.turn == "" {
		a.turn = a.over
	}
}

// close ends the open turn. It also ends all other open calls, because a person can run commands between
// turns.
func (a *adapter) close() {
	for len(a.calls) > 0 {
		a.ended(func(call) bool { return true }, wire.OutcomeCut)
	}
	if a.turn == "" {
		return
	}
	if a.over != a.turn {
		status := wire.TurnFailed
		switch {
		case a.last == endsComplete:
			status = wire.TurnCompleted
		case a.last == endsStopped, a.marked(a.turn):
			status = wire.TurnCancelled
		}
		a.envelope(a.turn, wire.DerivedID("turn-end", a.turn), &wire.TurnEnd{Status: status}).Usage = a.usage()
	}
	a.over, a.turn = a.turn, ""
}

func (a *adapter) said(message, part, text string, thinking *bool) {
	if strings.TrimSpace(text) != "" {
		a.envelope(a.turn, wire.DerivedID("text", message, part), &wire.Text{Text: toolcall.Cut(text), Thinking: thinking})
	}
}

// note emits a text of the program itself.
func (a *adapter) note(id, text string) {
	if text = strings.TrimSpace(text); text != "" {
		a.envelope(a.turn, wire.DerivedID("service", id), &wire.Service{Text: toolcall.Cut(text)})
	}
}

func (a *adapter) call(message, id, tool string, input json.RawMessage) {
	t := toolcall.Describe(tool, input)
	if slices.ContainsFunc(a.calls, func(c call) bool { return c.message == message && c.id == id }) {
		return
	}
	a.calls = append(a.calls, call{message: message, id: id, turn: a.turn, path: t.Path, size: t.Size})
	a.envelope(a.turn, wire.DerivedID("tool-call-start", message, id),
		&wire.ToolCallStart{Call: id, Name: tool, Title: t.Title, Description: t.Description, Args: t.Args})
}

// ended ends the first open call that match accepts.
func (a *adapter) ended(match func(call) bool, outcome wire.Outcome) {
	i := slices.IndexFunc(a.calls, match)
	if i < 0 {
		return
	}
	c := a.calls[i]
	a.calls = slices.Delete(a.calls, i, i+1)
	a.envelope(c.turn, wire.DerivedID("tool-call-end", c.message, c.id), &wire.ToolCallEnd{Call: c.id, Outcome: outcome})
	if c.path == "" || outcome != wire.OutcomeDone {
		return
	}
	path := c.path
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.dir, path)
	}
	a.envelope(c.turn, wire.DerivedID("file", c.message, c.id), &wire.File{Ref: path, Name: toolcall.Base(path), Size: c.size})
}

// usage returns the tokens of the open turn's answers; nil if there are none.
func (a *adapter) usage() *wire.Usage {
	const limit = 1 << 50
	tokens := func(n float64) int64 { return int64(min(max(n, 0), limit)) }
	t := a.spent
	if t == (Tokens{}) {
		return nil
	}
	return &wire.Usage{
		InputTokens: tokens(t.Input), OutputTokens: tokens(t.Output + t.Reasoning),
		CacheCreationInputTokens: new(tokens(t.Cache.Write)), CacheReadInputTokens: new(tokens(t.Cache.Read)),
	}
}

// late is how much older an event may be than its envelope.
const late = time.Minute

// conversation yields the envelopes of all events of a session, except turns that ended before since. ended
// means that no agent runs. Otherwise the last turn stays open unless the model has finished its answer.
func (a *adapter) conversation(events iter.Seq2[record, error], since time.Time, ended bool) iter.Seq2[wire.Envelope, error] {
	return func(yield func(wire.Envelope, error) bool) {
		var held []wire.Envelope // the envelopes of a turn that may still end before since
		tell := func(list []wire.Envelope) bool {
			for _, e := range list {
				if _, begins := e.Event.(*wire.TurnStart); begins {
					held = held[:0]
				}
				if held = append(held, e); e.Time < float64(since.Add(-late).UnixMilli()) {
					continue
				}
				for _, e := range held {
					if !yield(e, nil) {
						return false
					}
				}
				held = held[:0]
			}
			return true
		}
		for r, err := range events {
			if err != nil {
				yield(wire.Envelope{}, err)
				return
			}
			if !tell(a.event(r.Event)) {
				return
			}
		}
		if ended || a.last == endsComplete || a.last == endsFailed || a.last == endsStopped {
			// No event may have the time when a turn was cut.
			tell(a.end(since))
		}
	}
}

package acp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
)

// fold makes envelopes from the updates of one turn. Agents keep no ids of texts, so the envelopes' ids
// depend on the message, the ids of tool calls and the number of earlier texts. A replayed turn therefore has
// the same ids, as far as the agent replays it.
type fold struct {
	turn string // the id of the message
	emit func(wire.Envelope)

	kind  string // the kind of the unfinished text
	id    string // the agent's id of the unfinished text; most agents have none
	buf   strings.Builder
	count map[string]int // the number of texts, by kind
	calls map[string]*call
	last  string // the agent's last text

	denied sync.Map // the ids of denied tool calls; several goroutines use it
}

// call is a tool call.
type call struct {
	toolCall
	began, over bool
}

func newFold(turn string, emit func(wire.Envelope)) *fold {
	return &fold{turn: turn, emit: emit, count: map[string]int{}, calls: map[string]*call{}}
}

func (f *fold) envelope(id string, event wire.Event) wire.Envelope {
	return wire.Envelope{ID: id, Time: float64(time.Now().UnixMilli()), Role: wire.RoleAgent, Turn: &f.turn, Event: event}
}

// begin starts the turn with its prompt.
func (f *fold) begin(text string) {
	f.emit(f.envelope(wire.DerivedID("turn-start", f.turn), new(wire.TurnStart)))
	if text = strings.TrimSpace(text); text != "" {
		e := f.envelope(wire.DerivedID("text", f.turn), &wire.Text{Text: toolcall.Cut(text)})
		e.Role = wire.RoleUser
		f.emit(e)
	}
}

// update adds an update. It reports whether the update proves that the agent is working on the message.
func (f *fold) update(u *Update) bool {
	switch u.Kind {
	case agentChunk, thoughtChunk:
		if u.Kind != f.kind || u.MessageID != f.id {
			f.flush()
			f.kind, f.id = u.Kind, u.MessageID
		}
		f.buf.WriteString(u.text())
	case toolBegins, toolChanges:
		f.flush()
		f.tool(u.toolCall)
	case userChunk: // the message itself, or the agent's addition to it
		f.flush()
		return false
	default:
		return false
	}
	return true
}

// flush emits the text received so far.
func (f *fold) flush() {
	text := f.buf.String()
	f.buf.Reset()
	if strings.TrimSpace(text) == "" {
		return
	}
	f.count[f.kind]++
	n := strconv.Itoa(f.count[f.kind])
	if f.kind == thoughtChunk {
		f.emit(f.envelope(wire.DerivedID("thought", f.turn, n), &wire.Text{Text: toolcall.Cut(text), Thinking: new(true)}))
		return
	}
	f.last = strings.TrimSpace(text)
	f.emit(f.envelope(wire.DerivedID("text", f.turn, n), &wire.Text{Text: toolcall.Cut(text)}))
}

// tool updates a tool call. The envelope for its start waits until the tool runs, because the input may be
// incomplete before that.
func (f *fold) tool(t toolCall) {
	c := f.calls[t.ID]
	if c == nil {
		c = &call{}
		f.calls[t.ID] = c
	}
	if c.over {
		return
	}
	input := t.Input
	if s := string(input); s == "null" || s == "{}" {
		input = nil
	}
	c.toolCall = toolCall{
		ID: t.ID, Title: cmp.Or(t.Title, c.Title), Name: cmp.Or(t.Name, c.Name), Tool: cmp.Or(t.Tool, c.Tool), Status: cmp.Or(t.Status, c.Status), Input: c.Input,
	}
	if input != nil {
		c.Input = input
	}
	switch c.Status {
	case statusRuns:
		f.start(c)
	case statusCompleted:
		f.end(c, wire.OutcomeDone)
	case statusFailed:
		f.end(c, f.denial(c.ID, wire.OutcomeFailed))
	}
}

func (f *fold) start(c *call) {
	if c.began {
		return
	}
	c.began = true
	name := toolName(c.Tool)
	d := toolcall.Describe(name, c.Input)
	if command := c.command(); name == toolShell && command != "" {
		d.Title = "run `" + strings.ReplaceAll(toolcall.Line(command), "`", "'") + "`"
	} else if strings.HasPrefix(d.Title, "use ") && c.Title != "" {
		d.Title = "use " + toolcall.Line(c.Title)
	}
	f.emit(f.envelope(wire.DerivedID("tool-call-start", f.turn, c.ID),
		&wire.ToolCallStart{Call: c.ID, Name: cmp.Or(c.Name, name), Title: d.Title, Description: d.Description, Args: d.Args}))
}

func (f *fold) end(c *call, outcome wire.Outcome) {
	f.start(c)
	c.over = true
	f.emit(f.envelope(callEnd(f.turn, c.ID), &wire.ToolCallEnd{Call: c.ID, Outcome: outcome}))
}

// denial returns the outcome of a denied tool call. For other calls, it returns other.
func (f *fold) denial(call string, other wire.Outcome) wire.Outcome {
	if _, denied := f.denied.Load(call); denied {
		return wire.OutcomeDenied
	}
	return other
}

// callEnd returns the id of the envelope for the end of a tool call.
func callEnd(turn, call string) string { return wire.DerivedID("tool-call-end", turn, call) }

// command returns the shell command of the call, or "".
func (c *toolCall) command() string {
	var input struct{ Command any }
	_ = json.Unmarshal(c.Input, &input) // the input may have another form
	switch v := input.Command.(type) {
	case string:
		return v
	case []any:
		return strings.TrimSpace(fmt.Sprintln(v...))
	}
	return ""
}

// close ends the turn. Tool calls that are still open end as cut.
func (f *fold) close(r *record, status wire.TurnStatus, spent *usage) {
	f.flush()
	r.mu.Lock()
	open := maps.Clone(r.calls)
	r.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(open)) {
		f.emit(f.envelope(open[id], &wire.ToolCallEnd{Call: id, Outcome: f.denial(id, wire.OutcomeCut)}))
	}
	e := f.envelope(wire.DerivedID("turn-end", f.turn), &wire.TurnEnd{Status: status})
	if spent != nil {
		e.Usage = &wire.Usage{
			InputTokens: max(0, spent.Input), OutputTokens: max(0, spent.Output), CacheReadInputTokens: spent.CachedRead, CacheCreationInputTokens: spent.CachedWrite,
		}
	}
	f.emit(e)
}

const toolShell = "Bash"

// toolName returns Claude Code's name of a kind of tool, so that one list of allowed tools serves all agents.
func toolName(kind string) string {
	return cmp.Or(map[string]string{
		"execute": toolShell, "read": "Read", "edit": "Edit", "search": "Grep", "fetch": "WebFetch", "delete": "Delete", "move": "Move", "switch_mode": "ExitPlanMode",
	}[kind], "Other")
}

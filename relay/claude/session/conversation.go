package session

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
	"teambridge/teams/transcript"
)

// conversation is the common state of the readers of live output and of transcripts: the
// open turn, and the open calls in it. It makes the envelopes.
type conversation struct {
	at       time.Time // of the record that is being read
	subagent *string   // that the conversation belongs to; nil for the agent itself
	out      []wire.Envelope

	turn        string          // the id of the open turn; empty between turns
	prompt      json.RawMessage // its prompt, until it has an envelope
	told        bool            // the prompt has an envelope
	alive       bool            // the agent has acknowledged the turn
	interrupted bool
	over        string // the last turn that has a turn-end
	usage       *wire.Usage
	calls       []*call  // that are open, in the order of their starts
	denied      []string // ids of the calls that we denied last

	// inside, if it is set, makes the envelopes of a subagent that is about to be stopped.
	inside func(by *call)
}

// call is an open tool call.
type call struct {
	id, tool, turn string
	start          string  // the id of its tool-call-start
	parent         *string // the subagent whose call it is
	agent          *string // the subagent that it began
	background     bool    // the call has ended, and its subagent keeps running
	file           string  // the id in the name of the subagent's transcript, from the result
	path           string  // of the file that it writes
	size           float64
}

func (c *conversation) take() []wire.Envelope {
	out := c.out
	c.out = nil
	return out
}

// unknown is the prefix of the uuid that a record without one is given.
const unknown = "?"

// envelope adds an envelope of the agent in the open turn.
func (c *conversation) envelope(id, record string, event wire.Event) *wire.Envelope {
	e := wire.Envelope{ID: id, Time: float64(c.at.UnixMilli()), Role: wire.RoleAgent, Subagent: c.subagent, Event: event}
	if c.turn != "" {
		e.Turn = new(c.turn)
	}
	if record != "" && !strings.HasPrefix(record, unknown) {
		e.ClaudeUUID = new(record)
	}
	c.out = append(c.out, e)
	return &c.out[len(c.out)-1]
}

// begin begins a turn. A turn that is still open has failed: its process has died.
func (c *conversation) begin(id string, prompt json.RawMessage) {
	if c.turn == id {
		return
	}
	c.end(wire.TurnFailed)
	c.turn, c.prompt, c.interrupted = id, prompt, false
	c.envelope(wire.DerivedID("turn-start", id), "", new(wire.TurnStart))
}

// given makes the envelope of the open turn's prompt, once: the agent has acknowledged the turn.
func (c *conversation) given(content json.RawMessage) {
	if c.turn == "" {
		return
	}
	if content == nil {
		content = c.prompt
	}
	if content != nil && !c.told {
		c.said(c.turn, content)
		c.told = true
	}
	c.prompt, c.alive = nil, true
}

// said makes the envelope of a text of the user.
func (c *conversation) said(uuid string, content json.RawMessage) {
	if text := asTyped(texts(content)); text != "" {
		c.envelope(wire.DerivedID("text", uuid, "0"), uuid, &wire.Text{Text: toolcall.Cut(text)}).Role = wire.RoleUser
	}
}

// note makes the envelope of a text of the program.
func (c *conversation) note(uuid, text string) {
	if text = strings.TrimSpace(text); text != "" {
		c.envelope(wire.DerivedID("service", uuid), uuid, &wire.Service{Text: toolcall.Cut(text)})
	}
}

// output makes the envelope of the output of a local command.
func (c *conversation) output(uuid, text string) {
	for _, tag := range []string{"local-command-stdout", "local-command-stderr"} {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "<"+tag+">", ""), "</"+tag+">", "")
	}
	c.note(uuid, text)
}

// assistant makes the envelopes of the agent's texts and tool calls.
func (c *conversation) assistant(r *Line) {
	if r.Message.Model == transcript.Synthetic {
		c.note(r.UUID, texts(r.Message.Content))
		return
	}
	sub, turn := c.subagent, c.turn
	if r.ParentTool != "" {
		c.subagent = subagentOf(r.ParentTool)
		if by := c.began(r.ParentTool); by != nil {
			c.turn = by.turn
		}
	}
	for i, b := range r.Blocks() {
		n := strconv.Itoa(i)
		switch {
		case b.Type == "text" && strings.TrimSpace(b.Text) != "":
			c.envelope(wire.DerivedID("text", r.UUID, n), r.UUID, &wire.Text{Text: toolcall.Cut(b.Text)})
		case b.Type == "thinking" && strings.TrimSpace(b.Thinking) != "":
			c.envelope(wire.DerivedID("text", r.UUID, n), r.UUID, &wire.Text{Text: toolcall.Cut(b.Thinking), Thinking: new(true)})
		case b.Type == "tool_use" && b.ID != "":
			c.call(r.UUID, n, b)
		}
	}
	c.subagent, c.turn = sub, turn
}

// call makes the envelopes of the start of a tool call.
func (c *conversation) call(record, n string, b transcript.Block) {
	id := wire.DerivedID("tool-call-start", record, n)
	for _, open := range c.calls {
		if open.id == b.ID {
			return
		}
	}
	t := toolcall.Describe(b.Name, b.Input)
	c.envelope(id, record, &wire.ToolCallStart{Call: b.ID, Name: b.Name, Title: t.Title, Description: t.Description, Args: t.Args})
	made := &call{id: b.ID, tool: b.Name, turn: c.turn, start: id, parent: c.subagent, path: t.Path, size: t.Size}
	c.calls = append(c.calls, made)
	if agent := Subagent(b.Name, b.ID); agent != "" {
		made.agent = &agent
		start := &wire.Start{}
		if t.Description != "" {
			start.Title = new(toolcall.Line(t.Description))
		}
		c.envelope(wire.DerivedID("start", *made.agent), record, start).Subagent = made.agent
	}
}

// Subagent returns the id of the subagent that a tool call begins, or "".
func Subagent(tool, call string) string {
	if tool != "Task" && tool != "Agent" {
		return ""
	}
	return *subagentOf(call)
}

func subagentOf(call string) *string { return new(wire.DerivedID("subagent", call)) }

// began returns the open call that began a subagent.
func (c *conversation) began(id string) *call {
	i := slices.IndexFunc(c.calls, func(open *call) bool { return open.id == id && open.agent != nil })
	if i < 0 {
		return nil
	}
	return c.calls[i]
}

// results makes the envelopes of the ends of tool calls.
func (c *conversation) results(r *Line) {
	for _, b := range r.Blocks() {
		if b.Type != "tool_result" {
			continue
		}
		i := slices.IndexFunc(c.calls, func(open *call) bool { return open.id == b.ToolUseID && !open.background })
		if i < 0 {
			continue
		}
		done := c.calls[i]
		if done.agent != nil {
			done.file, done.background = launched(r)
		}
		if !done.background {
			c.calls = slices.Delete(c.calls, i, i+1)
			c.stop(done)
		}
		outcome := c.outcome(r, done, b)
		c.ended(done, r.UUID, outcome)
		if done.path != "" && outcome == wire.OutcomeDone {
			file := c.envelope(wire.DerivedID("file", done.start), r.UUID, &wire.File{Ref: done.path, Name: toolcall.Base(done.path), Size: done.size})
			file.Subagent, file.Turn = done.parent, turnOf(done)
		}
	}
}

// launched returns the id of the subagent in a result, and whether it keeps running in the background.
func launched(r *Line) (id string, background bool) {
	for _, raw := range []json.RawMessage{r.ToolResult, r.LiveResult} {
		var result struct {
			IsAsync         bool
			Status, AgentID string
		}
		if json.Unmarshal(raw, &result) != nil || result.Status == "teammate_spawned" {
			continue
		}
		return result.AgentID, result.IsAsync || result.Status == "async_launched"
	}
	return "", false
}

func turnOf(c *call) *string {
	if c.turn == "" {
		return nil
	}
	return new(c.turn)
}

// ended makes the envelope of the end of a call.
func (c *conversation) ended(done *call, record string, outcome wire.Outcome) {
	e := c.envelope(wire.DerivedID("tool-call-end", done.start), record, &wire.ToolCallEnd{Call: done.id, Outcome: outcome})
	e.Subagent, e.Turn = done.parent, turnOf(done)
}

// stop ends the subagent that a call began, after the open calls in it.
func (c *conversation) stop(by *call) {
	if by.agent == nil {
		return
	}
	if c.inside != nil {
		c.inside(by)
	}
	c.endCalls(func(open *call) bool { return open.parent != nil && *open.parent == *by.agent })
	e := c.envelope(wire.DerivedID("stop", *by.agent), "", new(wire.Stop))
	e.Subagent, e.Turn = by.agent, turnOf(by)
}

// notified ends a subagent that ran in the background.
func (c *conversation) notified(id string) {
	if by := c.began(id); by != nil && by.background {
		c.calls = slices.DeleteFunc(c.calls, func(open *call) bool { return open == by })
		c.stop(by)
	}
}

// endCalls ends the open calls that match.
func (c *conversation) endCalls(match func(*call) bool) {
	for {
		i := slices.IndexFunc(c.calls, match)
		if i < 0 {
			return
		}
		open := c.calls[i]
		c.calls = slices.Delete(c.calls, i, i+1)
		c.stop(open)
		if !open.background {
			c.ended(open, "", wire.OutcomeCut)
		}
	}
}

// end ends the open turn.
func (c *conversation) end(status wire.TurnStatus) {
	if c.turn != "" {
		if status == wire.TurnCompleted || status == wire.TurnCancelled {
			c.given(nil)
		}
		background := map[string]bool{}
		for _, open := range c.calls {
			if open.background {
				background[*open.agent] = true
			}
		}
		c.endCalls(func(open *call) bool { return !open.background && (open.parent == nil || !background[*open.parent]) })
		if c.over != c.turn {
			c.envelope(wire.DerivedID("turn-end", c.turn), "", &wire.TurnEnd{Status: status}).Usage = c.usage
		}
		c.over = c.turn
	}
	c.turn, c.prompt, c.told, c.alive, c.interrupted, c.usage = "", nil, false, false, false, nil
}

// gone ends the open turn and its calls, since the process is gone. A turn that the agent has
// not acknowledged gets no end: the next process begins it again.
func (c *conversation) gone() {
	switch {
	case c.alive && c.interrupted:
		c.end(wire.TurnCancelled)
	case c.alive:
		c.end(wire.TurnFailed)
	}
	c.endCalls(func(*call) bool { return true })
	c.turn, c.prompt, c.told, c.interrupted, c.usage = "", nil, false, false, nil
}

// usageOf reads the usage of a result or a message; nil if there is none.
func usageOf(raw json.RawMessage) *wire.Usage {
	u, ok := transcript.UsageOf(raw)
	if !ok {
		return nil
	}
	return &wire.Usage{InputTokens: u.Input, CacheCreationInputTokens: u.CacheCreation, CacheReadInputTokens: u.CacheRead, OutputTokens: u.Output}
}

// asTyped returns a prompt as the user typed it: Claude Code keeps a command in tags.
func asTyped(text string) string {
	if !strings.HasPrefix(text, "<command-") {
		return strings.TrimSpace(text)
	}
	element := func(name string) string {
		_, rest, _ := strings.Cut(text, "<"+name+">")
		value, _, _ := strings.Cut(rest, "</"+name+">")
		return strings.TrimSpace(value)
	}
	return strings.TrimSpace(element("command-name") + " " + element("command-args"))
}

// Package session tells what Claude Code does as envelopes of the session protocol: from
// the lines that a headless process prints ([Adapter]), and from the transcripts that all
// processes write ([Read], [Follow]).
//
// # One conversation, the same envelopes
//
// Claude Code gives a line of output and the record that it keeps of it the same uuid. The
// id of an envelope is derived from that, so what was seen live and is read again after a
// crash has the same id: whoever keeps each id once neither loses nor repeats anything.
// The order is the same too, in the conversation itself and in each subagent. Times may
// differ by what Claude Code takes to write a record.
//
// # Turns
//
// A turn begins with a prompt, and its id is the uuid of the prompt, which is that of the
// frame. A turn that Claude Code begins by itself, such as after a background task has
// ended, has the uuid of the first thing that the agent says in it, because only
// transcripts tell the uuid of its prompt. Each turn has one turn-start and one turn-end:
//
//   - completed: the agent has stopped by itself.
//   - cancelled: somebody interrupted it.
//   - failed: the model API or a limit ended it, or its process died. Nobody wanted that.
//
// A tool call or a subagent that is still open when its turn ends is ended with it. Only
// subagents in the background outlive their turn.
//
// A process that died before it acknowledged a frame leaves a turn-start without an end,
// because that frame is run again under the same id.
//
// # What becomes what
//
//   - A prompt is a text of the user. In a transcript, a message from another session or from teambridge is one, too. Text of
//     the agent is a text; its reasoning is one with the flag thinking.
//   - The use of a tool is a tool-call-start, its result a tool-call-end. The title says in
//     one line what is to be done, "run `go test ./...`", and the outcome how that ended: failed
//     if the result is an error, denied if the tool was not allowed, cut if there is no result.
//   - A file that Write, Edit or NotebookEdit wrote is a file after the tool-call-end. Its ref
//     is its path. Its size is that of the content that was written, or 0 where that is not
//     known, as for Edit.
//   - The use of an agent (Task, Agent) begins a subagent, whose id is derived from that of
//     the tool call. Its prompt is in the arguments of the call, and not a text.
//   - The output of local commands, other texts that come from the program and not from
//     the model, and the note that the conversation was compacted are services.
//   - The usage of a turn is in its turn-end.
//
// A text or an argument of a tool is cut at 256 KiB, and the arguments of one call at 512 KiB.
//
// # What live output and transcript do not share
//
// Of conversations with answers of several blocks, tool calls in parallel, interrupts, frames that were joined or given in
// the middle of a turn, subagents, background tasks, commands, compactions, and resumed sessions:
//
//   - A command, a text with "/" in front, may be kept under another name, such as /usage for /cost.
//   - A transcript does not tell that a limit of turns ended a turn. It has failed because
//     nothing followed.
//   - Transcripts of some versions do not tell a call that a person rejected at the terminal
//     from one that was interrupted while it ran: both are cut.
//   - What the program itself says next to a command may be printed after the prompt or
//     before; it is always told after it.
package session

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
	"teambridge/teams/transcript"
)

// Adapter makes envelopes of what a process prints, line by line. It is not safe for
// concurrent use.
type Adapter struct {
	conversation
	sent    []sent // frames that were written and whose turn has not begun, oldest first
	started string // the frame that lifecycle started, whose turn begins with the next init
	init    bool   // since the last result
	stamped bool   // the program prints frames back with a timestamp, unless they are known
	heard   bool   // the program has acknowledged something, or told the version of Claude Code

	session string
	began   time.Time       // the last init
	told    map[string]bool // ids of envelopes since then
}

// sent is a frame that was written.
type sent struct {
	uuid    string
	content json.RawMessage
}

// New returns an Adapter for a process that has not printed anything yet.
func New() *Adapter { return &Adapter{told: map[string]bool{}} }

// maxSent bounds the frames that wait. An agent that never acknowledges anything keeps no more.
const maxSent = 64

// Sent says that a frame is about to be written, so that its turn can be told from others even if
// the program does not print it back.
func (a *Adapter) Sent(frame []byte) {
	r, ok := parse(frame)
	if !ok || r.UUID == "" {
		return
	}
	a.unsent(r.UUID)
	if a.sent = append(a.sent, sent{r.UUID, bytes.Clone(r.Message.Content)}); len(a.sent) > maxSent {
		a.sent = a.sent[1:]
	}
}

// unsent takes a frame out of those that wait.
func (a *Adapter) unsent(uuid string) (content json.RawMessage) {
	for i, s := range a.sent {
		if s.uuid == uuid {
			a.sent = append(a.sent[:i:i], a.sent[i+1:]...)
			return s.content
		}
	}
	return nil
}

// Denied says that a question of the process about a call was answered with a denial. That the result says so, too, is not
// relied on. The question may come before the call is printed.
func (a *Adapter) Denied(call string) {
	if a.denied = append(a.denied, call); len(a.denied) > maxDenied {
		a.denied = a.denied[1:]
	}
}

// Line returns what a line of output tells, read at that time. A line that is not JSON, or
// of a type that is not known, tells nothing.
func (a *Adapter) Line(line []byte, at time.Time) []wire.Envelope {
	r, ok := parse(line)
	if !ok {
		return nil
	}
	a.at = r.time(at)
	if r.UUID == "" {
		// Of another program. Nothing else tells of it, so that the ids may be random.
		r.UUID = unknown + rand.Text()
	}
	switch r.Type {
	case "command_lifecycle":
		a.heard = true
		switch r.State {
		case "started":
			a.started = r.CommandUUID
		case "completed", "cancelled":
			a.unsent(r.CommandUUID)
		}
	case "system":
		a.system(r)
	case "user":
		a.user(r)
	case "assistant":
		if r.ParentTool == "" {
			a.open(r.UUID)
		}
		a.assistant(r)
	case "result":
		a.result(r)
	}
	all := a.take()
	for _, e := range all {
		a.told[e.ID] = true
	}
	return all
}

func (a *Adapter) system(r *record) {
	switch r.Subtype {
	case "init":
		a.init, a.heard, a.session, a.began = true, a.heard || r.ClaudeVersion != "", r.Session, a.at
		clear(a.told)
		if a.started != "" {
			a.begin(a.started, a.unsent(a.started))
			a.started = ""
		}
	case "compact_boundary":
		a.open("")
		a.note(r.UUID, "Conversation compacted")
	case "task_notification":
		a.notified(r.ToolUse)
	}
}

func (a *Adapter) user(r *record) {
	switch kind := r.Kind(); {
	case r.ParentTool != "" || kind == transcript.Results:
		a.results(r)
	case kind == transcript.Interrupted:
		a.open("")
		a.interrupted = true
	case kind == transcript.Output:
		// The answer to set_model is one outside of all turns.
		if a.turn == "" && a.init {
			a.open("")
		}
		a.output(r.UUID, texts(r.Message.Content))
	case kind != transcript.Prompt && kind != transcript.Command, !r.Replay:
	default:
		a.echo(r)
	}
}

// echo takes a frame that is printed back.
func (a *Adapter) echo(r *record) {
	a.heard, a.stamped = true, a.stamped || r.Timestamp != ""
	a.unsent(r.UUID)
	switch taken := r.Timestamp != "" || a.init && !a.stamped; {
	case a.turn == r.UUID:
		a.given(r.Message.Content)
	case a.turn != "" && taken: // given to the model in the middle of a turn
		a.said(r.UUID, r.Message.Content)
	case taken:
		a.begin(r.UUID, r.Message.Content)
		a.given(nil)
	}
	// Else it is known from before, or joined with the next.
}

// open begins the turn to which a line belongs that does not say it, if none is open: that of
// a frame which another program does not acknowledge, or one that Claude Code began by itself.
func (a *Adapter) open(self string) {
	if a.turn == "" && !a.heard && len(a.sent) > 0 {
		frame := a.sent[0]
		a.unsent(frame.uuid)
		a.begin(frame.uuid, frame.content)
	}
	if a.turn == "" && self != "" && !strings.HasPrefix(self, unknown) {
		a.begin(self, nil)
	}
	a.given(nil)
}

func (a *Adapter) result(r *record) {
	if a.init {
		a.open("")
	} else if !a.heard && a.turn == "" && r.Subtype == "success" { // a program that prints only results
		a.open("")
		if text := transcript.String(r.Result); strings.TrimSpace(text) != "" && a.turn != "" {
			a.envelope(wire.DerivedID("text", a.turn, "result"), "", &wire.Text{Text: toolcall.Cut(text)})
		}
	}
	a.init, a.started = false, ""
	status := wire.TurnCompleted
	switch {
	case a.interrupted, strings.HasPrefix(r.Reason, "aborted"):
		status = wire.TurnCancelled
	case r.IsError, r.Subtype != "success":
		status = wire.TurnFailed
	}
	if a.usage = usageOf(r.Usage); a.usage != nil {
		if cost := transcript.CostOf(r.ModelUsage); len(cost) > 0 {
			raw, _ := json.Marshal(cost) // of numbers that were read from JSON
			a.usage.Extra = wire.Object{StatedCost: raw}
		}
	}
	a.end(status)
}

// StatedCost is the key under which the usage of a turn-end has what the program says that the session had
// cost by then, in US dollars by model; see [transcript.Stated].
const StatedCost = "stated_cost_usd"

// Open reports whether a turn has begun and not ended, also one that the program has not
// acknowledged yet, and when and in which session it began.
func (a *Adapter) Open() (session string, since time.Time, open bool) {
	return a.session, a.began, a.turn != "" || a.init
}

// End returns what is left to tell when the process is gone and all that it printed was read: what
// its transcript has of the open turn and the process did not print, and the end of what is
// still open. The transcript may be nil.
func (a *Adapter) End(at time.Time, kept iter.Seq2[wire.Envelope, error]) ([]wire.Envelope, error) {
	var all []wire.Envelope
	var err error
	add := func(e wire.Envelope) {
		if !a.told[e.ID] {
			a.told[e.ID] = true
			all = append(all, e)
		}
	}
	if kept != nil {
		for e, failed := range kept {
			if err = failed; err != nil {
				break
			}
			if e.Turn != nil && (*e.Turn == a.turn || slices.ContainsFunc(a.sent, func(s sent) bool { return s.uuid == *e.Turn })) {
				add(e)
			}
		}
	}
	a.at = at
	a.gone()
	for _, e := range a.take() {
		add(e)
	}
	a.sent, a.started, a.init = nil, "", false
	return all, err
}

// record is a line of output, or a record of a transcript.
type record struct {
	transcript.Record

	// Of output alone.
	Session       string `json:"session_id"`
	ParentTool    string `json:"parent_tool_use_id"`
	ToolUse       string `json:"tool_use_id"`
	CommandUUID   string `json:"command_uuid"`
	ClaudeVersion string `json:"claude_code_version"`
	State         string
	IsError       bool `json:"is_error"`
	Usage         json.RawMessage
	ModelUsage    json.RawMessage
	Result        json.RawMessage
	Reason        string          `json:"terminal_reason"`
	LiveResult    json.RawMessage `json:"tool_use_result"`
	Results       []resultMeta    `json:"tool_result_meta"`
}

// parse returns the record of a line of output.
func parse(line []byte) (*record, bool) {
	r := new(record)
	return r, transcript.Decode(line, r)
}

// time is when the record was made, or read if it does not say.
func (r *record) time(read time.Time) time.Time {
	if at := r.Time(); !at.IsZero() {
		return at
	}
	return read
}

// texts are the texts of a message; what is not a text is named.
func texts(content json.RawMessage) string {
	var all []string
	for _, b := range transcript.Blocks(content) {
		switch {
		case b.Type == "text":
			all = append(all, b.Text)
		case b.Type != "":
			all = append(all, "["+b.Type+"]")
		}
	}
	return strings.Join(all, "\n")
}

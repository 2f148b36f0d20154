package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"teambridge/relay/wire"
	"teambridge/teams/transcript"
)

// Options select the part of a transcript to read.
type Options struct {
	// Since leaves out older records, except those of the turn that was open one minute before Since.
	// The minute is for records that were written late.
	Since time.Time
	// Gone means that the process is gone, so that an open turn has failed. Otherwise it stays open.
	Gone bool
}

// Read yields the envelopes of a transcript. The transcript of a subagent or a teammate is a
// conversation of its own. The envelopes of a subagent precede its end. An error that wraps
// [io/fs.ErrNotExist] means that there is no transcript.
func Read(ctx context.Context, path string, o Options) iter.Seq2[wire.Envelope, error] {
	return func(yield func(wire.Envelope, error) bool) {
		t := newReader(path, o.Since)
		if _, ok := t.all(ctx, yield); !ok {
			return
		}
		t.settle()
		if o.Gone {
			t.gone()
		}
		t.yield(yield)
	}
}

// Follow yields the envelopes of a transcript and then of records that are added to it, until ctx ends. It
// looks for more records after each pause. If there were none, it also ends if done is not nil and returns
// true. It waits until an incomplete last line is complete.
func Follow(ctx context.Context, path string, from time.Time, pause time.Duration, done func() bool) iter.Seq2[wire.Envelope, error] {
	return func(yield func(wire.Envelope, error) bool) {
		t := newReader(path, from)
		for {
			grown, ok := t.all(ctx, yield)
			if !ok {
				return
			}
			t.settle()
			if !t.yield(yield) || !grown && done != nil && done() {
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				yield(wire.Envelope{}, context.Cause(ctx))
				return
			}
		}
	}
}

// reader reads a transcript.
type reader struct {
	conversation
	tail transcript.Tail
	own  bool // it belongs to a subagent, whose records are all marked as such

	held     wire.TurnStatus             // the end of the turn, unless the agent continues
	self     bool                        // the program begins the next turn
	waiting  *Line                       // a command, until it is known whether it begins a turn
	boundary *Line                       // a compaction, until it is known which turn it belongs to
	spent    map[string]*wire.Usage      // of the turn, by message
	seen     map[string]*transcript.Tail // the transcripts of subagents
}

func newReader(path string, since time.Time) *reader {
	t := &reader{
		tail: transcript.Tail{Path: path}, own: strings.HasPrefix(filepath.Base(path), "agent-"),
		spent: map[string]*wire.Usage{}, seen: map[string]*transcript.Tail{},
	}
	t.inside = t.subagentSaid
	if !since.IsZero() {
		// Reading begins with the last turn that began more than a minute before since.
		before := since.Add(-time.Minute)
		t.tail.Begin = transcript.From(func(line []byte) bool {
			if !bytes.Contains(line, []byte(`"type":"user"`)) {
				return false
			}
			r, ok := transcript.Parse(line)
			at := r.Time()
			return ok && !at.IsZero() && at.Before(before) && r.Step() == transcript.Begins
		})
	}
	return t
}

// all reads the new records. grown means that there were some; ok is false after an error or if yield wants no more.
func (t *reader) all(ctx context.Context, yield func(wire.Envelope, error) bool) (grown, ok bool) {
	for line, err := range t.tail.Lines() {
		if err != nil {
			err = fmt.Errorf("session: read transcript: %w", err)
		} else if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			yield(wire.Envelope{}, err)
			return grown, false
		}
		grown = true
		if r, ok := transcript.Parse(line); ok && (t.own || !r.Sidechain) {
			t.record(t.took(r))
		}
		if !t.yield(yield) {
			return grown, false
		}
	}
	return grown, true
}

// took decodes the next record. Envelopes from now on have its time.
func (t *reader) took(r transcript.Record) *Line {
	took := &Line{Record: r}
	t.at = took.time(t.at)
	return took
}

func (t *reader) yield(yield func(wire.Envelope, error) bool) bool {
	for _, e := range t.take() {
		if !yield(e, nil) {
			return false
		}
	}
	return true
}

func (t *reader) record(r *Line) {
	switch r.Type {
	case "user":
		t.user(r)
	case "assistant":
		step := r.Step()
		if step == transcript.Within {
			return
		}
		t.run()
		t.compacted()
		switch {
		case t.turn != "":
		case t.over != "" && !t.self: // a hook made the agent continue
			t.turn, t.told, t.alive = t.over, true, true
		default:
			t.start(r.UUID, nil)
		}
		t.held = ""
		t.assistant(r)
		if u := usageOf(r.Message.Usage); u != nil && r.Message.Model != transcript.Synthetic {
			t.spent[r.Message.ID] = u
		}
		switch step {
		case transcript.Stops:
			t.held = wire.TurnCompleted
		case transcript.Fails:
			t.held = wire.TurnFailed
		}
	case "system":
		switch r.Subtype {
		case "local_command":
			if text := transcript.String(r.Content); strings.HasPrefix(text, "<local-command-") {
				t.run()
				t.output(r.UUID, text)
				t.held = wire.TurnCompleted
			} else {
				t.run()
				r.Message.Content = r.Content
				t.waiting = r
			}
		case "compact_boundary":
			t.compacted()
			t.boundary = r
		}
	case "attachment":
		t.attachment(r)
	}
}

// attachment processes an attachment, such as a prompt that the agent was given in the middle of a turn.
func (t *reader) attachment(r *Line) {
	switch a := r.Attachment; {
	case a.Type != "queued_command":
	case a.Mode == "task-notification":
		t.mailed(r.UUID, texts(a.Prompt))
		t.notification(texts(a.Prompt))
	case t.turn != "":
		t.held = ""
		if !t.mailed(r.UUID, texts(a.Prompt)) {
			t.said(cmp.Or(a.Source, r.UUID), a.Prompt)
		}
	}
}

// notification ends a subagent that ran in the background, even if it began before the first
// record that is read.
func (t *reader) notification(text string) {
	_, id, _ := strings.Cut(text, "<tool-use-id>")
	id, _, _ = strings.Cut(id, "</tool-use-id>")
	if t.began(id) != nil {
		t.notified(id)
		return
	}
	file := t.subagentFile(id)
	if file == "" {
		return // it is another task
	}
	by := &call{id: id, agent: subagentOf(id), file: file}
	if _, again := t.seen[file]; again {
		t.subagentSaid(by) // it was given another message after it had ended
	} else {
		t.stop(by)
	}
}

func (t *reader) user(r *Line) {
	kind := r.Kind()
	if kind != transcript.Aside && kind != transcript.Command {
		// A command begins a turn unless it is the one that Claude Code records for set_model.
		if w := t.waiting; kind == transcript.Output && w != nil && w.Attribution == "" && strings.HasPrefix(asTyped(texts(w.Message.Content)), "/model") {
			t.waiting = nil
			t.settle()
		}
		t.run()
	}
	switch kind {
	case transcript.Results:
		t.held = ""
		t.results(r)
	case transcript.Interrupted:
		t.end(wire.TurnCancelled)
	case transcript.Output:
		t.compacted()
		t.output(r.UUID, texts(r.Message.Content))
		if t.turn != "" && t.held == "" && !t.answering() {
			t.held = wire.TurnCompleted
		}
	case transcript.Notification, transcript.Peer:
		t.settle()
		t.compacted()
		t.mailed(r.UUID, texts(r.Message.Content))
		if kind == transcript.Notification {
			t.notification(texts(r.Message.Content))
		}
		t.self = true
	case transcript.Command:
		t.run()
		t.waiting = r
	case transcript.Prompt:
		t.settle()
		t.compacted()
		t.start(r.UUID, r.Message.Content)
	}
}

// answering reports whether the agent has answered in the open turn.
func (t *reader) answering() bool { return len(t.spent) > 0 }

// run begins the turn of a command that waits.
func (t *reader) run() {
	if r := t.waiting; r != nil {
		t.waiting = nil
		t.settle()
		t.start(r.UUID, r.Message.Content)
		t.compacted()
	}
}

// compacted makes the envelope of the compaction that waits for its turn.
func (t *reader) compacted() {
	if r := t.boundary; r != nil {
		t.boundary = nil
		t.note(r.UUID, "Conversation compacted")
	}
}

// start begins a turn.
func (t *reader) start(uuid string, content json.RawMessage) {
	t.end("")
	t.begin(uuid, nil)
	t.given(content)
	t.self = false
}

// settle ends the turn if its end was read.
func (t *reader) settle() {
	t.run()
	if t.held != "" {
		t.end(t.held)
	}
}

// end ends the open turn; without a status, it was cut.
func (t *reader) end(status wire.TurnStatus) {
	if t.turn == "" {
		return
	}
	if status == "" {
		status = wire.TurnFailed
	}
	for _, u := range t.spent {
		t.usage = t.usage.Add(u)
	}
	t.held = ""
	t.conversation.end(status)
	clear(t.spent)
}

// subagents returns the folder with the transcripts of subagents.
func (t *reader) subagents() string {
	if t.own {
		return filepath.Dir(t.tail.Path)
	}
	return filepath.Join(strings.TrimSuffix(t.tail.Path, ".jsonl"), "subagents")
}

// subagentSaid makes the envelopes of a subagent from its own transcript.
func (t *reader) subagentSaid(by *call) {
	id := by.file
	if id == "" {
		id = t.subagentFile(by.id)
	}
	if id == "" || id != filepath.Base(id) {
		return
	}
	if t.seen[id] == nil {
		t.seen[id] = &transcript.Tail{Path: filepath.Join(t.subagents(), "agent-"+id+".jsonl")}
	}
	subagent, turn, at := t.subagent, t.turn, t.at
	t.subagent, t.turn = by.agent, by.turn
	for line, err := range t.seen[id].Lines() {
		if err != nil {
			break // an outdated version keeps no transcript of some subagents
		}
		r, ok := transcript.Parse(line)
		switch r := t.took(r); {
		case !ok:
		case r.Type == "assistant":
			t.assistant(r)
		case r.Type == "user" && r.Kind() == transcript.Results:
			t.results(r)
		}
	}
	t.subagent, t.turn, t.at = subagent, turn, at
}

// subagentFile returns the id in the transcript's name of the subagent that a tool call began, or "".
func (t *reader) subagentFile(call string) string {
	for _, s := range transcript.Subagents(t.subagents()) {
		if s.ToolUseID == call {
			return strings.TrimPrefix(strings.TrimSuffix(filepath.Base(s.Path), ".jsonl"), "agent-")
		}
	}
	return ""
}

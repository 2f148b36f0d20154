package session

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"teambridge/relay/wire"
)

// lineLimit bounds a line of a transcript. Records with pictures have some MB; longer ones are
// passed over.
const lineLimit = 64 << 20

// Options say what to read of a transcript.
type Options struct {
	// Since leaves out what is older, but not the beginning of a turn that was open a minute
	// before. The minute is for records that were written late.
	Since time.Time
	// Gone says that the process is gone: what is still open has failed. Otherwise it stays open.
	Gone bool
}

// Read tells what a transcript says. A transcript of a subagent or a teammate is a conversation
// of its own. What subagents did stands before their end. An error that wraps
// [io/fs.ErrNotExist] says that there is no transcript.
func Read(ctx context.Context, path string, o Options) iter.Seq2[wire.Envelope, error] {
	return func(yield func(wire.Envelope, error) bool) {
		t, err := open(path, o.Since)
		if err != nil {
			yield(wire.Envelope{}, err)
			return
		}
		defer t.file.Close()
		if err := t.all(ctx, yield); err != nil || t.stopped {
			t.fail(yield, err)
			return
		}
		// The last line may have no newline.
		t.line(t.partial)
		t.settle()
		if o.Gone {
			t.gone()
		}
		t.yield(yield)
	}
}

// Grown returns a function that reports whether a transcript has grown since it was last called,
// and then sends to again, which [Follow] reads.
func Grown(ctx context.Context, path string, again chan<- struct{}) func() bool {
	size := int64(-1)
	return func() bool {
		info, err := os.Stat(path)
		if err != nil || info.Size() == size { // a file that is gone grows no more
			return false
		}
		size = info.Size()
		select {
		case again <- struct{}{}:
		case <-ctx.Done():
		}
		return true
	}
}

// Follow tells what a transcript says, and then what is added to it, until ctx ends. It looks for
// more after each value of again, which must not be closed. A last line that is not complete is
// waited for.
func Follow(ctx context.Context, path string, from time.Time, again <-chan struct{}) iter.Seq2[wire.Envelope, error] {
	return func(yield func(wire.Envelope, error) bool) {
		t, err := open(path, from)
		if err != nil {
			yield(wire.Envelope{}, err)
			return
		}
		defer t.file.Close()
		for {
			if err := t.all(ctx, yield); err != nil || t.stopped {
				t.fail(yield, err)
				return
			}
			t.settle()
			if !t.yield(yield) {
				return
			}
			select {
			case <-again:
			case <-ctx.Done():
				t.fail(yield, context.Cause(ctx))
				return
			}
		}
	}
}

// transcript is one that is being read.
type transcript struct {
	conversation
	file    *os.File
	path    string
	lines   *bufio.Reader
	limit   int    // of a line
	partial []byte // a line whose end is not there yet
	skip    bool   // the line is over the limit
	own     bool   // it is that of a subagent, whose records are all marked as such
	stopped bool   // the consumer wants no more

	held     wire.TurnStatus        // how the turn has ended, unless the agent goes on
	self     bool                   // the program begins a turn
	waiting  *record                // a command, until it is known whether it begins a turn
	boundary *record                // a compaction, until it is known which turn it belongs to
	spent    map[string]*wire.Usage // of the turn, by message
	seen     map[string]int64       // how much was read of the transcripts of subagents
}

func open(path string, since time.Time) (*transcript, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("session: read transcript: %w", err)
	}
	t := &transcript{
		file: file, path: path, limit: lineLimit, lines: bufio.NewReaderSize(file, 64<<10),
		own: strings.HasPrefix(filepath.Base(path), "agent-"), spent: map[string]*wire.Usage{}, seen: map[string]int64{},
	}
	t.inside = t.subagentSaid
	if !since.IsZero() {
		offset, err := beginning(file, since.Add(-time.Minute))
		if err == nil {
			_, err = file.Seek(offset, io.SeekStart)
		}
		if err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("session: read transcript: %w", err)
		}
	}
	return t, nil
}

// all reads what is there.
func (t *transcript) all(ctx context.Context, yield func(wire.Envelope, error) bool) error {
	for n := 0; ; n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		part, err := t.lines.ReadSlice('\n')
		if t.skip = t.skip || len(t.partial)+len(part) > t.limit; t.skip {
			t.partial = t.partial[:0]
		} else if err != nil || len(t.partial) > 0 {
			t.partial = append(t.partial, part...)
			part = t.partial
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("session: read transcript: %w", err)
		default:
			if !t.skip {
				t.line(part)
			}
			if t.partial, t.skip = t.partial[:0], false; cap(t.partial) > 1<<20 {
				t.partial = nil
			}
			if !t.yield(yield) {
				return nil
			}
		}
	}
}

func (t *transcript) yield(yield func(wire.Envelope, error) bool) bool {
	for _, e := range t.take() {
		if t.stopped = t.stopped || !yield(e, nil); t.stopped {
			return false
		}
	}
	return true
}

func (t *transcript) fail(yield func(wire.Envelope, error) bool, err error) {
	if err != nil && !t.stopped {
		yield(wire.Envelope{}, err)
	}
}

// line takes a line; of a torn one after which another process has written, the last record.
func (t *transcript) line(line []byte) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	r, ok := parse(line)
	for rest, tries := line, 0; !ok && tries < 8; tries++ {
		i := bytes.Index(rest[1:], []byte(`{"parentUuid":`))
		if i < 0 {
			break
		}
		rest = rest[1+i:]
		r, ok = parse(rest)
	}
	if ok && (t.own || !r.Sidechain) {
		t.at = r.time(t.at)
		t.record(r)
	}
}

func (t *transcript) record(r *record) {
	switch r.Type {
	case "user":
		t.user(r)
	case "assistant":
		if r.Message.Model == synthetic && texts(r.Message.Content) == "No response requested." {
			return // written after a resume, for the model
		}
		t.run()
		t.compacted()
		switch {
		case t.turn != "":
		case t.over != "" && !t.self: // a hook made the agent go on
			t.turn, t.told, t.alive = t.over, true, true
		default:
			t.start(r.UUID, nil)
		}
		t.held = ""
		t.assistant(r)
		if u := usageOf(r.Message.Usage); u != nil && r.Message.Model != synthetic {
			t.spent[r.Message.ID] = u
		}
		switch r.Message.Stop {
		case "", "tool_use", "pause_turn":
		default:
			t.held = wire.TurnCompleted
		}
		if r.APIError {
			t.held = wire.TurnFailed
		}
	case "system":
		switch r.Subtype {
		case "local_command":
			if text := text(r.Content); strings.HasPrefix(text, "<local-command-") {
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

// attachment takes what the agent was given in the middle of a turn.
func (t *transcript) attachment(r *record) {
	var a struct {
		Type   string
		Prompt json.RawMessage
		Source string `json:"source_uuid"`
		Mode   string `json:"commandMode"`
	}
	if json.Unmarshal(r.Attachment, &a) != nil || a.Type != "queued_command" {
		return
	}
	if a.Mode == "task-notification" {
		t.notification(texts(a.Prompt))
	} else if t.turn != "" {
		t.held = ""
		t.said(cmp.Or(a.Source, r.UUID), a.Prompt)
	}
}

// notification tells that a subagent in the background has ended, also one that began before what
// is read.
func (t *transcript) notification(text string) {
	_, id, _ := strings.Cut(text, "<tool-use-id>")
	id, _, _ = strings.Cut(id, "</tool-use-id>")
	if t.began(id) != nil {
		t.notified(id)
		return
	}
	file := subagentFile(t.subagents(), id)
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

func (t *transcript) user(r *record) {
	kind := r.kind()
	if kind != aside && kind != command {
		// A command begins a turn unless it is the one that Claude Code records for set_model.
		if w := t.waiting; kind == output && w != nil && w.Attribution == "" && strings.HasPrefix(asTyped(texts(w.Message.Content)), "/model") {
			t.waiting = nil
			t.settle()
		}
		t.run()
	}
	switch kind {
	case results:
		t.held = ""
		t.results(r)
	case interrupted:
		t.end(wire.TurnCancelled)
	case output:
		t.compacted()
		t.output(r.UUID, texts(r.Message.Content))
		if t.turn != "" && t.held == "" && !t.answering() {
			t.held = wire.TurnCompleted
		}
	case notification:
		t.settle()
		t.compacted()
		t.notification(texts(r.Message.Content))
		t.self = true
	case command:
		t.run()
		t.waiting = r
	case prompt:
		t.settle()
		t.compacted()
		t.start(r.UUID, r.Message.Content)
	}
}

// answering reports whether the agent has said something in the open turn.
func (t *transcript) answering() bool { return len(t.spent) > 0 }

// run begins the turn of a command that waits.
func (t *transcript) run() {
	if r := t.waiting; r != nil {
		t.waiting = nil
		t.settle()
		t.start(r.UUID, r.Message.Content)
		t.compacted()
	}
}

// compacted tells of a compaction.
func (t *transcript) compacted() {
	if r := t.boundary; r != nil {
		t.boundary = nil
		t.note(r.UUID, "Conversation compacted")
	}
}

// start begins a turn.
func (t *transcript) start(uuid string, content json.RawMessage) {
	t.end("")
	t.begin(uuid, nil)
	t.given(content)
	t.self = false
}

// settle ends the turn if the agent has said so.
func (t *transcript) settle() {
	t.run()
	if t.held != "" {
		t.end(t.held)
	}
}

// end ends the open turn; without a status, it was cut.
func (t *transcript) end(status wire.TurnStatus) {
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

// subagents is the folder with the transcripts of subagents.
func (t *transcript) subagents() string {
	if t.own {
		return filepath.Dir(t.path)
	}
	return filepath.Join(strings.TrimSuffix(t.path, ".jsonl"), "subagents")
}

// subagentSaid tells what a subagent did, from its own transcript.
func (t *transcript) subagentSaid(by *call) {
	id := by.file
	if id == "" {
		id = subagentFile(t.subagents(), by.id)
	}
	if id == "" || id != filepath.Base(id) {
		return
	}
	file, err := os.Open(filepath.Join(t.subagents(), "agent-"+id+".jsonl"))
	if err != nil {
		return // older versions keep none of some subagents
	}
	defer file.Close()
	if _, err := file.Seek(t.seen[id], io.SeekStart); err != nil {
		return
	}
	subagent, turn, at := t.subagent, t.turn, t.at
	t.subagent, t.turn = by.agent, by.turn
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, lineLimit)
	for lines.Scan() {
		t.seen[id] += int64(len(lines.Bytes())) + 1 // first, since a record can name the same subagent
		r, ok := parse(lines.Bytes())
		if !ok {
			continue
		}
		t.at = r.time(t.at)
		switch {
		case r.Type == "assistant":
			t.assistant(r)
		case r.Type == "user" && r.kind() == results:
			t.results(r)
		}
	}
	t.subagent, t.turn, t.at = subagent, turn, at
}

// subagentFile finds the subagent that a tool call began.
func subagentFile(folder, call string) string {
	const suffix = ".meta.json"
	all, _ := os.ReadDir(folder)
	for _, e := range all {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			continue
		}
		var meta struct{ ToolUseID string }
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err == nil && json.Unmarshal(data, &meta) == nil && meta.ToolUseID == call {
			return strings.TrimPrefix(name, "agent-")
		}
	}
	return ""
}

// text is the string that the JSON holds, or "".
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// beginning returns where the last turn begins that began before a time. It reads the file from
// its end, so that a long conversation before that costs nothing.
func beginning(file *os.File, before time.Time) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	const piece = 1 << 20
	var tail []byte // what was read and is not looked at: the end of a line whose start is not there
	for end := info.Size(); end > 0; {
		start := max(0, end-piece)
		data := make([]byte, end-start, int(end-start)+len(tail))
		if _, err := file.ReadAt(data, start); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		data = append(data, tail...)
		end = start
		for {
			i := bytes.LastIndexByte(data, '\n')
			if i < 0 && start > 0 {
				break
			}
			if line := data[i+1:]; bytes.Contains(line, []byte(`"type":"user"`)) {
				if r, ok := parse(line); ok && r.Type == "user" && r.time(before).Before(before) {
					if kind := r.kind(); kind == prompt || kind == command || kind == notification {
						return start + int64(i+1), nil
					}
				}
			}
			if i < 0 {
				break
			}
			data = data[:i]
		}
		tail = data
		if len(tail) > lineLimit {
			tail = nil
		}
	}
	return 0, nil
}

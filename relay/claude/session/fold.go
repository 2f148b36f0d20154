package session

import (
	"crypto/rand"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
	"teambridge/teams/transcript"
)

// Fold follows the output of a process, line by line: it keeps the states of the frames that the process was given,
// and makes envelopes. It is not safe for concurrent use.
type Fold struct {
	conversation
	frames
	started string // the frame that lifecycle started, whose turn begins with the next init
	init    bool   // there was an init since the last result

	session string
	began   time.Time       // the last init
	since   map[string]bool // ids of the envelopes since that init
}

// New returns a Fold for a process that has not printed anything yet.
func New() *Fold { return &Fold{since: map[string]bool{}} }

// Denied notes that the process asked about a call, and that the answer was a denial. The result of the call may not
// show the denial. The question may come before the call is printed.
func (f *Fold) Denied(call string) {
	if f.denied = append(f.denied, call); len(f.denied) > maxDenied {
		f.denied = f.denied[1:]
	}
}

// Line returns the progress of frames and the envelopes from a line of output that was read at a time. A line of an
// unknown type has neither.
func (f *Fold) Line(l *Line, at time.Time) ([]agent.Progress, []wire.Envelope) {
	f.at = l.time(at)
	if l.UUID == "" {
		// The line is of another program, and no other record has it. So the ids may be random.
		l.UUID = unknown + rand.Text()
	}
	switch l.Type {
	case "command_lifecycle":
		if l.State == "started" {
			f.started = l.CommandUUID
		}
		f.reported(l.CommandUUID, l.State)
	case "system":
		f.system(l)
	case "user":
		f.user(l)
	case "assistant":
		if l.ParentTool == "" {
			f.open(l.UUID)
		}
		f.assistant(l)
	case "result":
		f.result(l)
	}
	all := f.take()
	for _, e := range all {
		f.since[e.ID] = true
	}
	changes := f.changes
	f.changes = nil
	return changes, all
}

// WritesLost is the subtype of the last line of a process that could not write all of its records.
const WritesLost = "session_writes_lost"

func (f *Fold) system(l *Line) {
	switch l.Subtype {
	case "init":
		f.init, f.acknowledges, f.session, f.began = true, f.acknowledges || l.ClaudeVersion != "", l.Session, f.at
		f.turnBegins()
		clear(f.since)
		if f.started != "" {
			f.begin(f.started, f.prompted(f.started))
			f.started = ""
		}
	case "compact_boundary":
		f.open("")
		f.note(l.UUID, "Conversation compacted")
	case "task_notification":
		f.notified(l.ToolUse)
	case WritesLost:
		f.exits()
	}
}

func (f *Fold) user(l *Line) {
	taken := false
	if l.Replay && !strings.HasPrefix(l.UUID, unknown) {
		taken = f.echoed(l.UUID, l.Timestamp != "", f.init)
	}
	kind := l.Kind()
	if l.Replay && f.State(l.UUID) != 0 {
		kind = transcript.Prompt // whatever its text is
	}
	switch {
	case l.ParentTool != "" || kind == transcript.Results:
		f.results(l)
	case kind == transcript.Interrupted:
		f.open("")
		f.interrupted = true
	case kind == transcript.Output:
		// The answer to set_model is an output outside of all turns.
		if f.turn == "" && f.init {
			f.open("")
		}
		f.output(l.UUID, texts(l.Message.Content))
	case kind != transcript.Prompt && kind != transcript.Command, !l.Replay:
	case f.turn == l.UUID:
		f.given(l.Message.Content)
	case !taken:
	case f.turn != "": // given to the model in the middle of a turn
		f.said(l.UUID, l.Message.Content)
	default:
		f.begin(l.UUID, l.Message.Content)
		f.given(nil)
	}
}

// open begins the turn of a line that does not name its turn, if no turn is open: the turn of a
// frame that another program does not acknowledge, or one that Claude Code began by itself.
func (f *Fold) open(self string) {
	if frame := f.waiting(); f.turn == "" && !f.acknowledges && frame != "" {
		f.begin(frame, f.prompted(frame))
	}
	if f.turn == "" && self != "" && !strings.HasPrefix(self, unknown) {
		f.begin(self, nil)
	}
	f.given(nil)
}

// result processes the result of a turn, which ends the turn and its frames.
func (f *Fold) result(l *Line) {
	mute := !f.acknowledges
	if mute && f.turn == "" && l.unbegun() {
		return // the process could not begin, and exits
	}
	if f.init {
		f.open("")
	} else if mute && f.turn == "" { // a program that prints only results
		f.open("")
		if f.turn != "" && l.Subtype == "success" && strings.TrimSpace(l.Result) != "" {
			f.envelope(wire.DerivedID("text", f.turn, "result"), "", &wire.Text{Text: toolcall.Cut(l.Result)})
		}
	}
	f.init, f.started = false, ""
	ended, status := f.of(l), wire.TurnCompleted
	end := agent.Done
	switch {
	case f.interrupted, strings.HasPrefix(l.Reason, "aborted"),
		l.Reason == "" && l.Subtype == "error_during_execution" && f.stopped(ended):
		end, status = agent.Cancelled, wire.TurnCancelled
	case l.Outcome().Failure != "":
		end, status = agent.Failed, wire.TurnFailed
	}
	f.turnEnds(ended, l.Outcome(), end)
	if f.usage = usageOf(l.Usage); f.usage != nil {
		if cost := transcript.CostOf(l.ModelUsage); len(cost) > 0 {
			raw, _ := json.Marshal(cost) // of numbers that were read from JSON
			f.usage.Extra = wire.Object{StatedCost: raw}
		}
	}
	f.end(status)
}

// StatedCost is the key, in the usage of a turn-end, of the cost of the session until then as the program
// states it, in US dollars by model; see [transcript.Stated].
const StatedCost = "stated_cost_usd"

// Open reports whether a turn has begun and not ended, even if the program has not
// acknowledged it yet, and when and in which session it began.
func (f *Fold) Open() (session string, since time.Time, open bool) {
	return f.session, f.began, f.turn != "" || f.init
}

// End returns the remaining envelopes after the process is gone and all its output was read: those
// of the open turn that only the transcript has, and the ends of the turn and calls that are
// still open. kept are the envelopes of the transcript, or nil.
func (f *Fold) End(at time.Time, kept iter.Seq2[wire.Envelope, error]) ([]wire.Envelope, error) {
	var all []wire.Envelope
	var err error
	add := func(e wire.Envelope) {
		if !f.since[e.ID] {
			f.since[e.ID] = true
			all = append(all, e)
		}
	}
	if kept != nil {
		for e, failed := range kept {
			if err = failed; err != nil {
				break
			}
			if e.Turn != nil && (*e.Turn == f.turn || *e.Turn == f.started || f.State(*e.Turn) == agent.Written) {
				add(e)
			}
		}
	}
	f.at = at
	f.gone()
	for _, e := range f.take() {
		add(e)
	}
	f.started, f.init = "", false
	return all, err
}

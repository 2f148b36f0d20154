package claude

import (
	"fmt"
	"slices"
	"strings"
)

// State is how far a frame has come. The zero value is that of a frame nobody has sent.
type State int

const (
	// Written: it was written; whether it was taken is not known.
	Written State = iota + 1
	// Accepted: it is in the conversation, or will before anything else is run; its turn runs or is about to.
	Accepted
	// Done: its turn has ended.
	Done
	// Failed: its turn has ended with an error, of the model API or by a limit. It is in the conversation and is
	// not run again.
	Failed
	// Cancelled: its turn was interrupted, or it was taken out of the queue. It is not run again by itself.
	Cancelled
	// Known: its uuid was taken before, by this process or by the session it resumed, and it was not run now. Whether
	// its turn finished then, the [Transcript] tells.
	Known
	// Unproven: a turn ended after it was written, and this program acknowledges nothing. It was most likely taken. To
	// such a program messages are sent at least once, not exactly once.
	Unproven
)

// String is the name in lower case.
func (s State) String() string {
	switch s {
	case Written:
		return "written"
	case Accepted:
		return "accepted"
	case Done:
		return "done"
	case Failed:
		return "failed"
	case Cancelled:
		return "cancelled"
	case Known:
		return "known"
	case Unproven:
		return "unproven"
	}
	return fmt.Sprintf("state %d", int(s))
}

// InFlight reports whether the frame may still be worked on: it is Written or Accepted.
func (s State) InFlight() bool { return s == Written || s == Accepted }

// Progress is a frame that has come to another state.
type Progress struct {
	UUID  string
	State State
	// Result is that of its turn; nil unless the state is Done, Failed, Cancelled or Unproven, and for a frame that
	// was cancelled before its turn.
	Result *Result
}

// Tracker tells from what a process prints how far each frame has come. It does no I/O; [Process] has one of its own
// and puts its findings into [Event.Progress]. The zero value is ready. It is not safe for concurrent use.
//
// A frame is known by its uuid alone. An echo under another uuid (set_model prints one), and a result that is not the
// one that ends its turn (a background task prints those), prove nothing. What counts:
//
//   - Accepted: the echo of its uuid with a timestamp, or lifecycle started. A frame that is joined with the next is
//     echoed without a timestamp; then lifecycle queued came before.
//   - The end: its lifecycle completed or cancelled or, of a version that prints no lifecycle, the first result after
//     the echo. A turn that was interrupted and one that the model API failed are both cancelled; their results differ.
//   - Known: an echo without a timestamp and with none of these before.
//   - A command (a text with "/" in front) has no echo from older versions: there the result of the turn that began after it was
//     written ends it.
//   - A program that has echoed nothing, told no version and printed a result: Unproven.
//
// Measured on 2.1.80 and 2.1.329.
type Tracker struct {
	frames  map[string]*frame
	order   []string // in flight, as they were sent
	ended   []string // the others, oldest first
	stamped bool     // an echo had a timestamp: this program gives them
	echoed  bool     // this program acknowledges
	version string   // of Claude Code, which acknowledges
}

// remembered bounds how many frames that have ended are kept.
const remembered = 1024

type frame struct {
	state       State
	silent      bool
	init        bool // a turn began since it was written
	lifecycle   bool // the process speaks of it by its uuid
	interrupted bool
	result      *Result
}

// Sent says that the frame is about to be written. Call it before: the echo can come before the write returns. A frame
// that is in flight stays as it is; one that has ended begins anew.
func (t *Tracker) Sent(f Frame) {
	if t.State(f.uuid).InFlight() {
		return
	}
	t.forget(f.uuid)
	if t.frames == nil {
		t.frames = map[string]*frame{}
	}
	t.frames[f.uuid] = &frame{state: Written, silent: f.silent}
	t.order = append(t.order, f.uuid)
}

// Unsent takes back a Sent of which nothing was written.
func (t *Tracker) Unsent(uuid string) {
	if t.State(uuid) == Written {
		t.forget(uuid)
	}
}

// Interrupted says that an interrupt of the frame is about to be written.
func (t *Tracker) Interrupted(uuid string) {
	if f := t.frames[uuid]; f != nil {
		f.interrupted = true
	}
}

// State is that of the frame, 0 if it was not sent or has been forgotten: of those that have ended the last 1024 are
// kept.
func (t *Tracker) State(uuid string) State {
	if f := t.frames[uuid]; f != nil {
		return f.state
	}
	return 0
}

// InFlight are the frames that are Written or Accepted, in the order they were sent.
func (t *Tracker) InFlight() []string { return slices.Clone(t.order) }

// Observe takes the next thing the process printed and returns what it changed.
func (t *Tracker) Observe(p Payload) []Progress {
	switch p := p.(type) {
	case Init:
		if p.Version != "" {
			t.version = p.Version
		}
		for _, uuid := range t.order {
			t.frames[uuid].init = true
		}
	case Lifecycle:
		return t.lifecycle(p)
	case Echo:
		return t.echo(p)
	case Result:
		return t.result(p)
	}
	return nil
}

func (t *Tracker) lifecycle(p Lifecycle) []Progress {
	t.echoed = true
	f := t.frames[p.UUID]
	if f == nil {
		return nil
	}
	switch p.State {
	case "queued":
		f.lifecycle = true
	case "started":
		f.lifecycle = true
		if f.state == Written {
			return t.to(p.UUID, Accepted)
		}
	case "completed":
		switch {
		case f.state == Written && !f.lifecycle:
			// After a resume the echo of a known uuid comes first, but this alone would say the same.
			return t.to(p.UUID, Known)
		case f.state.InFlight():
			return t.end(p.UUID, Done)
		}
	case "cancelled":
		if f.state.InFlight() {
			return t.end(p.UUID, Cancelled)
		}
	}
	return nil
}

func (t *Tracker) echo(p Echo) []Progress {
	stamped := t.stamped || p.Stamped
	defer func() { t.stamped = stamped }()
	t.echoed = true
	f := t.frames[p.UUID]
	if f == nil {
		return nil
	}
	if f.state != Written {
		return nil
	}
	// Without a timestamp, and behind an init that can be another turn's, it is taken for known if this program is one
	// that gives timestamps: a transcript then tells the truth, where a wrong Accepted would wait for a wrong end.
	if p.Stamped || f.lifecycle || f.init && !stamped {
		return t.to(p.UUID, Accepted)
	}
	return t.to(p.UUID, Known)
}

func (t *Tracker) result(p Result) []Progress {
	var all []Progress
	unproven := !t.echoed && t.version == ""
	for _, uuid := range slices.Clone(t.order) {
		f := t.frames[uuid]
		ours := slices.Contains(p.UUIDs, uuid)
		if ours {
			f.result = &p
		}
		switch {
		case !ours && len(p.UUIDs) > 0:
			// It names the frames of its turn.
		case f.lifecycle:
			// Its own end is still to come. Turns run one at a time, so a result that
			// names no frames is of the turn that has started.
			if f.state == Accepted {
				f.result = &p
			}
		case f.state == Accepted:
			f.result = &p
			all = append(all, t.end(uuid, Done)...)
		case f.silent && f.init:
			f.result = &p
			return append(all, t.end(uuid, Done)...)
		case unproven:
			f.result = &p
			return append(all, t.end(uuid, Unproven)...)
		}
	}
	return all
}

// end brings a frame to its end, which its result may tell better than the word for it.
func (t *Tracker) end(uuid string, state State) []Progress {
	f := t.frames[uuid]
	if r := f.result; r != nil && state != Unproven {
		switch {
		case strings.HasPrefix(r.Reason, "aborted"), r.Reason == "" && f.interrupted && r.Subtype == "error_during_execution":
			state = Cancelled
		case r.IsError || r.Subtype != "success":
			state = Failed
		}
	}
	return t.to(uuid, state)
}

func (t *Tracker) to(uuid string, state State) []Progress {
	f := t.frames[uuid]
	f.state = state
	if !state.InFlight() {
		t.order = slices.DeleteFunc(t.order, func(u string) bool { return u == uuid })
		t.ended = append(t.ended, uuid)
		if len(t.ended) > remembered {
			delete(t.frames, t.ended[0])
			t.ended = slices.Delete(t.ended, 0, 1)
		}
	}
	return []Progress{{UUID: uuid, State: state, Result: f.result}}
}

func (t *Tracker) forget(uuid string) {
	same := func(u string) bool { return u == uuid }
	delete(t.frames, uuid)
	t.order = slices.DeleteFunc(t.order, same)
	t.ended = slices.DeleteFunc(t.ended, same)
}

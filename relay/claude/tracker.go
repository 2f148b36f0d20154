package claude

import (
	"slices"
	"strings"

	"teambridge/relay/agent"
)

// Tracker derives the state of each frame from the output of a process. The zero value is ready to use. It is
// not safe for concurrent use. A frame is identified by its uuid alone:
//
//   - Accepted: lifecycle started, or the echo of its uuid with a timestamp. A frame that is joined with the next is
//     echoed without a timestamp, after lifecycle queued.
//   - The end: lifecycle completed or cancelled. The result tells an interrupt from a failure of the model API, which
//     are both cancelled.
//   - Known: an echo without a timestamp and with none of these before.
//
// Claude Code prints the lifecycle of each frame, including commands and messages of teammates, even without
// --replay-user-messages. Other programs may print less:
//
//   - One that echoes frames without a lifecycle: the first result after the echo is the end.
//   - One that has echoed nothing, told no version and printed a result: Unproven.
type Tracker struct {
	frames  map[string]*frame
	order   []string // frames in flight, in the order sent
	ended   []string // frames that have ended, oldest first
	stamped bool     // an echo had a timestamp, so this program adds them
	echoed  bool     // this program acknowledges
	version string   // of Claude Code, which always acknowledges
}

// remembered is the number of ended frames that are kept.
const remembered = 1024

type frame struct {
	state       agent.State
	init        bool // a turn has begun since it was written
	lifecycle   bool // the process reports on it by uuid
	interrupted bool
	result      *Result
}

// Sent notes that the frame is about to be written. A frame in flight keeps its state; one that has ended
// begins again.
func (t *Tracker) Sent(f agent.Frame) {
	if t.State(f.UUID).InFlight() {
		return
	}
	t.forget(f.UUID)
	if t.frames == nil {
		t.frames = map[string]*frame{}
	}
	t.frames[f.UUID] = &frame{state: agent.Written}
	t.order = append(t.order, f.UUID)
}

// Unsent undoes Sent if nothing was written.
func (t *Tracker) Unsent(uuid string) {
	if t.State(uuid) == agent.Written {
		t.forget(uuid)
	}
}

// Interrupted notes that an interrupt of the frame is about to be written.
func (t *Tracker) Interrupted(uuid string) {
	if f := t.frames[uuid]; f != nil {
		f.interrupted = true
	}
}

// State returns the state of a frame, 0 if it was not sent. Only the last 1024 ended frames are kept.
func (t *Tracker) State(uuid string) agent.State {
	if f := t.frames[uuid]; f != nil {
		return f.state
	}
	return 0
}

// InFlight returns the frames that are Written or Accepted, in the order sent.
func (t *Tracker) InFlight() []string { return slices.Clone(t.order) }

// Observe processes the next payload of the process, and returns the changes.
func (t *Tracker) Observe(p Payload) []agent.Progress {
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
	case Other:
		if p.Subtype == writesLost {
			return t.exits()
		}
	}
	return nil
}

// exits ends the frames whose results were printed but whose ends will not be.
func (t *Tracker) exits() (all []agent.Progress) {
	for _, uuid := range t.InFlight() {
		if f := t.frames[uuid]; f.state == agent.Accepted && f.result != nil {
			all = append(all, t.end(uuid, agent.Done)...)
		}
	}
	return all
}

func (t *Tracker) lifecycle(p Lifecycle) []agent.Progress {
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
		if f.state == agent.Written {
			return t.to(p.UUID, agent.Accepted)
		}
	case "completed":
		switch {
		case f.state == agent.Written && !f.lifecycle:
			// After a resume the echo of a known uuid comes first, but this lifecycle alone means the same.
			return t.to(p.UUID, agent.Known)
		case f.state.InFlight():
			return t.end(p.UUID, agent.Done)
		}
	case "cancelled":
		if f.state.InFlight() {
			return t.end(p.UUID, agent.Cancelled)
		}
	}
	return nil
}

func (t *Tracker) echo(p Echo) []agent.Progress {
	t.stamped = t.stamped || p.Stamped
	t.echoed = true
	f := t.frames[p.UUID]
	if f == nil || f.state != agent.Written {
		return nil
	}
	// The init can be another turn's. The transcript corrects a wrong Known; a wrong Accepted would wait for
	// a wrong end.
	if p.Stamped || f.lifecycle || f.init && !t.stamped {
		return t.to(p.UUID, agent.Accepted)
	}
	return t.to(p.UUID, agent.Known)
}

func (t *Tracker) result(p Result) []agent.Progress {
	var all []agent.Progress
	unproven := !t.echoed && t.version == ""
	for _, uuid := range slices.Clone(t.order) {
		f := t.frames[uuid]
		ours := slices.Contains(p.UUIDs, uuid)
		if ours {
			f.result = &p
		}
		switch {
		case !ours && len(p.UUIDs) > 0:
			// The result names the frames of its turn.
		case f.lifecycle:
			// The frame's own end is still to come. Turns run one at a time, so a result that names no frames
			// belongs to the turn that has started.
			if f.state == agent.Accepted {
				f.result = &p
			}
		case f.state == agent.Accepted:
			f.result = &p
			all = append(all, t.end(uuid, agent.Done)...)
		case unproven && because(p.Errors...) != nil:
			// No turn has ended: the process could not begin, and exits.
		case unproven && (p.IsError || p.Subtype != "success"):
			f.result = &p
			return append(all, t.end(uuid, agent.Failed)...)
		case unproven:
			f.result = &p
			return append(all, t.end(uuid, agent.Unproven)...)
		}
	}
	return all
}

// end ends a frame. Its result may be more precise than the lifecycle's state.
func (t *Tracker) end(uuid string, state agent.State) []agent.Progress {
	f := t.frames[uuid]
	if r := f.result; r != nil && state != agent.Unproven {
		switch {
		case strings.HasPrefix(r.Reason, "aborted"), r.Reason == "" && f.interrupted && r.Subtype == "error_during_execution":
			state = agent.Cancelled
		case r.IsError || r.Subtype != "success":
			state = agent.Failed
		}
	}
	return t.to(uuid, state)
}

func (t *Tracker) to(uuid string, state agent.State) []agent.Progress {
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
	p := agent.Progress{UUID: uuid, State: state}
	if f.result != nil {
		p.Result = f.result.outcome()
	}
	return []agent.Progress{p}
}

func (t *Tracker) forget(uuid string) {
	same := func(u string) bool { return u == uuid }
	delete(t.frames, uuid)
	t.order = slices.DeleteFunc(t.order, same)
	t.ended = slices.DeleteFunc(t.ended, same)
}

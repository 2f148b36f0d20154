package session

import (
	"encoding/json"
	"slices"

	"teambridge/relay/agent"
)

// frames has the states of the frames that a process was given.
type frames struct {
	all          map[string]*frameState
	order        []string // frames in flight, in the order sent
	past         []string // frames that have ended, oldest first
	stamped      bool     // an echo had a timestamp, so this program adds them
	acknowledges bool     // the program has echoed a frame, or reported a lifecycle or the version of Claude Code
	changes      []agent.Progress
}

const (
	// maxEnded is the number of ended frames that are kept, because their echoes may still come.
	maxEnded = 256
	// maxWaiting is the number of frames in flight whose contents are kept, for a program that never acknowledges
	// anything.
	maxWaiting = 64
)

type frameState struct {
	state       agent.State
	content     json.RawMessage // of its prompt, until that has an envelope
	begun       bool            // a turn has begun since it was written
	lifecycle   bool            // the process reports on it by uuid
	interrupted bool
	result      *agent.Result // of its turn; nil until that has ended
	end         agent.State   // its end as its result shows it
}

// Sent notes that a frame is about to be written. A frame in flight keeps its state; one that has ended begins
// again.
func (f *frames) Sent(sent agent.Frame) {
	if f.State(sent.UUID).InFlight() {
		return
	}
	f.forget(sent.UUID)
	var line struct {
		Message struct{ Content json.RawMessage }
	}
	_ = json.Unmarshal(sent.Line, &line) // a frame without content has no prompt to tell
	if f.all == nil {
		f.all = map[string]*frameState{}
	}
	f.all[sent.UUID] = &frameState{state: agent.Written, content: line.Message.Content}
	if f.order = append(f.order, sent.UUID); len(f.order) > maxWaiting {
		f.all[f.order[len(f.order)-1-maxWaiting]].content = nil
	}
}

// Unsent undoes Sent if nothing was written.
func (f *frames) Unsent(uuid string) {
	if f.State(uuid) == agent.Written {
		f.forget(uuid)
	}
}

// Interrupted notes that an interrupt of the frame is about to be written.
func (f *frames) Interrupted(uuid string) {
	if sent := f.all[uuid]; sent != nil {
		sent.interrupted = true
	}
}

// State returns the state of a frame, 0 if it was not sent. Only the last 256 ended frames are kept.
func (f *frames) State(uuid string) agent.State {
	if sent := f.all[uuid]; sent != nil {
		return sent.state
	}
	return 0
}

// InFlight returns the frames that are Written or Accepted, in the order sent.
func (f *frames) InFlight() []string { return slices.Clone(f.order) }

// waiting returns the first frame that was not acknowledged; empty if there is none.
func (f *frames) waiting() string {
	for _, uuid := range f.order {
		if f.all[uuid].state == agent.Written {
			return uuid
		}
	}
	return ""
}

// prompted returns the content of a frame, once.
func (f *frames) prompted(uuid string) (content json.RawMessage) {
	if sent := f.all[uuid]; sent != nil {
		content, sent.content = sent.content, nil
	}
	return content
}

// turnBegins notes the beginning of any turn.
func (f *frames) turnBegins() {
	for _, uuid := range f.order {
		f.all[uuid].begun = true
	}
}

// reported processes a lifecycle report on a frame.
func (f *frames) reported(uuid, state string) {
	f.acknowledges = true
	sent := f.all[uuid]
	if sent == nil || !sent.state.InFlight() {
		return
	}
	switch state {
	case "queued":
		sent.lifecycle = true
	case "started":
		sent.lifecycle = true
		if sent.state == agent.Written {
			f.to(uuid, agent.Accepted)
		}
	case "completed":
		if sent.state == agent.Written && !sent.lifecycle {
			// After a resume the echo of a known uuid comes first, but this lifecycle alone means the same.
			f.to(uuid, agent.Known)
		} else {
			f.finish(uuid, agent.Done)
		}
	case "cancelled":
		f.finish(uuid, agent.Cancelled)
	}
}

// echoed processes the echo of a frame. It reports whether the turn of the frame has begun, or the model was given
// the frame in the middle of another turn. Otherwise the frame is known from before, or joined with the next one.
// inTurn means that a turn has begun since the last result.
func (f *frames) echoed(uuid string, stamped, inTurn bool) (taken bool) {
	f.acknowledges, f.stamped = true, f.stamped || stamped
	sent := f.all[uuid]
	// The turn can be another's. The transcript corrects a wrong Known, but a wrong Accepted waits for a wrong end.
	taken = stamped || !f.stamped && inTurn && (sent == nil || sent.begun)
	if sent == nil || sent.state != agent.Written {
		return taken
	}
	sent.content = nil // the echo has it
	if taken || sent.lifecycle {
		f.to(uuid, agent.Accepted)
	} else {
		f.to(uuid, agent.Known)
	}
	return taken
}

// of returns the frames whose turn a result ends.
func (f *frames) of(l *Line) (list []string) {
	for _, uuid := range f.order {
		named := slices.Contains(l.UUIDs, uuid)
		switch {
		case len(l.UUIDs) > 0 && !named: // the result names the frames of its turn
		// Turns run one at a time, so a result that names no frames belongs to the turn that has started.
		case named, f.all[uuid].state == agent.Accepted, !f.acknowledges && len(list) == 0:
			list = append(list, uuid)
		}
	}
	return list
}

// stopped reports whether we have interrupted one of the frames.
func (f *frames) stopped(list []string) bool {
	return slices.ContainsFunc(list, func(uuid string) bool { return f.all[uuid].interrupted })
}

// turnEnds notes the result of the turn of frames.
func (f *frames) turnEnds(list []string, result *agent.Result, end agent.State) {
	for _, uuid := range list {
		sent := f.all[uuid]
		sent.result, sent.end = result, end
		switch {
		case sent.lifecycle: // its own end is still to come
		case !f.acknowledges && end == agent.Done:
			f.to(uuid, agent.Unproven)
		case !f.acknowledges, sent.state == agent.Accepted:
			f.to(uuid, end)
		}
	}
}

// exits ends the frames whose results were printed. The process exits without printing their ends.
func (f *frames) exits() {
	for _, uuid := range f.InFlight() {
		if sent := f.all[uuid]; sent.state == agent.Accepted && sent.result != nil {
			f.finish(uuid, agent.Done)
		}
	}
}

// finish ends a frame. The state from its result is more precise than that from its lifecycle.
func (f *frames) finish(uuid string, state agent.State) {
	if end := f.all[uuid].end; end == agent.Cancelled || end == agent.Failed {
		state = end
	}
	f.to(uuid, state)
}

func (f *frames) to(uuid string, state agent.State) {
	sent := f.all[uuid]
	sent.state = state
	f.changes = append(f.changes, agent.Progress{UUID: uuid, State: state, Result: sent.result})
	if !state.InFlight() {
		sent.content, sent.result = nil, nil
		f.order = slices.DeleteFunc(f.order, func(u string) bool { return u == uuid })
		if f.past = append(f.past, uuid); len(f.past) > maxEnded {
			delete(f.all, f.past[0])
			f.past = slices.Delete(f.past, 0, 1)
		}
	}
}

func (f *frames) forget(uuid string) {
	same := func(u string) bool { return u == uuid }
	delete(f.all, uuid)
	f.order = slices.DeleteFunc(f.order, same)
	f.past = slices.DeleteFunc(f.past, same)
}

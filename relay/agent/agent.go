// Package agent defines the interfaces between a relay and the agents that it runs: a [Runtime] is a kind of
// agent, such as Claude Code, and an [Agent] is a running one.
package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"teambridge/relay/wire"
)

// ErrNotInFlight means that the agent is not working on the frame to interrupt. An interrupt could only stop another
// frame.
var ErrNotInFlight = errors.New("frame is not in flight")

// ErrUnusable means that a conversation is empty and can neither be resumed nor begun under its id: its agent
// was killed before it recorded the first message.
var ErrUnusable = errors.New("conversation is empty and its id is taken")

// ErrRefused means that the agent refused a change of its mode.
var ErrRefused = errors.New("refused by the agent")

// WidenedError reports that an agent was killed because it had wider permissions than requested: it left plan mode by
// itself, or ignored its flags.
type WidenedError struct {
	Given   string // the requested permission mode, or that of its first turn
	Got     string // the reported permission mode
	Profile string // the profile that it should have been limited to and did not load; else empty
}

func (e *WidenedError) Error() string {
	if e.Profile != "" {
		return fmt.Sprintf("the agent did not load its profile %.100q, and had all tools; see: teambridge profile list", e.Profile)
	}
	return fmt.Sprintf("the agent works in permission mode %.40q, wider than %.40q, which it was given", e.Got, e.Given)
}

// Process identifies an agent's process, even after a restart of this one.
type Process struct {
	PID   int    `json:"pid"`
	Group int    `json:"group"` // its process group; 0 where there are none
	Start string `json:"start"` // when it started, in a system-specific form; empty if unknown
}

// Grace is how long a stopping agent gets for each step. The zero value skips the waiting.
type Grace struct {
	EOF  time.Duration // from closing its input to SIGTERM: time to end its turn
	Term time.Duration // from SIGTERM to SIGKILL
}

// Event is one event of an agent. Events come in the order in which the agent sent them.
type Event struct {
	At       time.Time       // when it was read, UTC
	Line     json.RawMessage // the raw line; nil if there is none, or it was too large to keep
	Payload  any             // the decoded line, in a type of the runtime's package; nil if there is no line
	Progress []Progress      // state changes of frames that were sent; nil for most events

	Start          *Start      // a turn begins; else nil
	Result         *Result     // a turn has ended; else nil
	PermissionMode string      // the permission mode changed to this; empty if it did not change
	Recipients     []string    // members that the agent writes to; "*" is all of them
	Background     *Background // the agent's work outside turns, if it has changed; else nil

	// Lost describes, for people, what the agent could not write to disk, beginning with [LostWrites]; empty
	// except in a last event. Earlier events remain valid, but the conversation may lack them.
	Lost string

	// Missed means that earlier output has no event, or one without a line: it was too large, or too much was
	// unread.
	Missed bool

	// Envelopes are the event's envelopes for front ends. Envelopes read from the conversation after a crash
	// have the same ids.
	Envelopes []wire.Envelope
}

// LostWrites begins each [Event.Lost].
const LostWrites = "not all could be written to disk: "

// Start is the beginning of a turn.
type Start struct {
	Session    string // the conversation from here on; empty if not reported
	ClaudeCode string // its version; empty for other programs, or if not reported
	Mode       string // its permission mode; empty if not reported
}

// Result is the end of a turn.
type Result struct {
	Text    string // the agent's last text
	Failure string // why the turn failed, if it did
}

// Background is work of an agent that would be lost if the agent was ended between two turns.
type Background struct {
	Tasks     int  // running tasks
	Scheduled bool // it has scheduled its own turns
}

// Frame is a message, encoded for one runtime.
type Frame struct {
	UUID    string // identifies it
	Line    []byte // without a newline; it must not be changed
	Command bool   // it is a command, which the conversation may not record
}

// State is the progress of a frame. The zero value means that it was never sent.
type State int

const (
	Written   State = iota + 1 // it was written; whether the agent took it is unknown
	Accepted                   // it is in the conversation, or will be before anything else runs
	Done                       // its turn has ended
	Failed                     // its turn ended with an error of the model API or by a limit; it does not run again
	Cancelled                  // its turn was interrupted, or it left the queue; it does not run again by itself

	// Known: its uuid was taken before in the same conversation, so it was not run now. The conversation
	// shows whether its turn finished; see [Turn].
	Known
	// Unproven: a turn ended after it was written, but this program acknowledges nothing. Such a program gets
	// messages at least once, not exactly once.
	Unproven
)

// String is the name in lower case.
func (s State) String() string {
	if s < Written || s > Unproven {
		return fmt.Sprintf("state %d", int(s))
	}
	return [...]string{"written", "accepted", "done", "failed", "cancelled", "known", "unproven"}[s-Written]
}

// InFlight reports whether the frame may still be worked on: it is Written or Accepted.
func (s State) InFlight() bool { return s == Written || s == Accepted }

// Progress is a frame's change of state.
type Progress struct {
	UUID   string
	State  State
	Result *Result // of its turn, once that has ended; nil for a frame that was cancelled before its turn
}

// Turn is the conversation's knowledge of a frame, for when the agent that got it is gone.
type Turn struct {
	Stored      bool   // its uuid is in the conversation; of joined frames only the last one's is
	Finished    bool   // the agent gave a final answer
	Interrupted bool   // a person stopped it; it is not Finished
	Failed      bool   // the model API stopped it; it is not Finished
	Failure     string // why it Failed, if known
	Stop        string // the model's last stop reason: "tool_use" if cut while a tool ran; empty without an answer
	Text        string // the final answer, if its turn is Finished
	Unknown     bool   // the conversation has no record, but the agent may have taken the frame
}

// Package agent says what a relay needs of a [Runtime], a program whose agents can be relayed
// to, such as Claude Code, and of an [Agent] that runs.
package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"teambridge/relay/wire"
)

// ErrNotInFlight means that the agent does not work on the frame to interrupt, so that
// an interrupt could only stop another one.
var ErrNotInFlight = errors.New("frame is not in flight")

// ErrUnusable means that a conversation can neither be resumed nor begun again under its
// id, and holds nothing: its agent was killed before it recorded the first message.
var ErrUnusable = errors.New("conversation is empty and its id is taken")

// ErrRefused means that the agent refused a change of its mode.
var ErrRefused = errors.New("refused by the agent")

// WidenedError reports that an agent was killed because it had more permissions than it
// was given: it left plan mode by itself, or did not do what its flags asked for.
type WidenedError struct {
	Given   string // the permission mode that was asked for, or in which its first turn began
	Got     string // the one that it reported
	Profile string // the profile that it did not load, with whose tools alone it was to work; else empty
}

func (e *WidenedError) Error() string {
	if e.Profile != "" {
		return fmt.Sprintf("the agent did not load its profile %.100q, and had all tools; see: teambridge profile list", e.Profile)
	}
	return fmt.Sprintf("the agent works in permission mode %.40q, wider than %.40q, which it was given", e.Got, e.Given)
}

// Process identifies a process of ours, also after a restart of this one.
type Process struct {
	PID   int    `json:"pid"`
	Group int    `json:"group"` // its process group; 0 where there are none
	Start string `json:"start"` // when it started, in a form of the system's own; empty where that is not known
}

// Grace is how long an agent that is to end gets for each step. The zero value skips the waiting.
type Grace struct {
	EOF  time.Duration // after its input was closed, before SIGTERM: a turn that runs ends within it
	Term time.Duration // after SIGTERM, before SIGKILL
}

// Event is one thing that an agent told, in the order it told them.
type Event struct {
	At       time.Time       // when it was read, UTC
	Line     json.RawMessage // as it was printed; nil if there is no line, or it was too large to keep
	Payload  any             // what the line says, in a type of the runtime's package; nil if there is no line
	Progress []Progress      // what it changed for frames that were sent; nil for most events

	Start          *Start      // a turn begins; else nil
	Result         *Result     // a turn has ended; else nil
	PermissionMode string      // the permission mode changed to this; empty if it did not change
	Recipients     []string    // members to whom the agent writes; "*" is all of them
	Background     *Background // what the agent does besides turns, if that has changed; else nil

	// Lost says, for people, what the agent could not write to disk, with [LostWrites] first; empty for all but a last event.
	// What it told before stands, but the conversation may lack it.
	Lost string

	// Missed says that something that the agent told before has no event, or has one without
	// a line: it was too large, or too much was not read.
	Missed bool

	// Envelopes are what it tells front ends. What the conversation tells again after a
	// crash has the same ids.
	Envelopes []wire.Envelope
}

// LostWrites is how each [Event.Lost] begins.
const LostWrites = "not all could be written to disk: "

// Start is the beginning of a turn.
type Start struct {
	Session    string // of the conversation from here on; empty if the agent did not tell
	ClaudeCode string // its version; empty if the agent is another program, or did not tell
	Mode       string // the permission mode that it works in; empty if it did not tell
}

// Result is the end of a turn.
type Result struct {
	Text    string // what the agent said last
	Failure string // why the turn failed, if it did
}

// Background is work of an agent that would be lost if it was ended between two turns.
type Background struct {
	Tasks     int  // that run
	Scheduled bool // it has scheduled turns of its own
}

// Frame is a message, encoded for one runtime.
type Frame struct {
	UUID    string // what it is known by
	Line    []byte // without a newline; it must not be changed
	Command bool   // the runtime keeps no record of it, so that the conversation does not tell of it
}

// State is how far a frame has come. The zero value means that nobody has sent it.
type State int

const (
	Written   State = iota + 1 // it was written; whether it was taken is not known
	Accepted                   // it is in the conversation, or will be before anything else is run
	Done                       // its turn has ended
	Failed                     // its turn has ended with an error, of the model API or by a limit, and is not run again
	Cancelled                  // its turn was interrupted, or it was taken out of the queue; it is not run again by itself

	// Known: its uuid was taken before in the same conversation, and it was not run now.
	// The conversation tells whether its turn finished then; see [Turn].
	Known
	// Unproven: a turn ended after it was written, and this program acknowledges nothing.
	// To such a program messages are sent at least once, not exactly once.
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

// Progress is a frame that has come to another state.
type Progress struct {
	UUID   string
	State  State
	Result *Result // of its turn, once that has ended; nil for a frame that was cancelled before its turn
}

// Turn is what a conversation tells about a frame after the agent that got it is gone.
type Turn struct {
	Stored      bool   // its uuid is known; of frames that were joined only that of the last is
	Finished    bool   // the agent said something last
	Interrupted bool   // somebody stopped it; it is not Finished
	Failed      bool   // the model API stopped it; it is not Finished
	Failure     string // why it Failed, if that is known
	Stop        string // why the model last stopped, as it says itself: "tool_use" if cut while a tool ran; empty if it said nothing
	Text        string // what the agent said last, if its turn is Finished
	Unknown     bool   // there is no record of the conversation, and the agent may have taken the frame even so
}

package agent

import (
	"context"
	"iter"
	"time"

	"teambridge/relay/mode"
	"teambridge/relay/wire"
)

// Runtime starts agents of one kind and knows what became of what they were sent.
// TestConformance of package relay proves that a relay with it delivers exactly once.
//
// A conversation and a message have ids, which the relay chooses. A message that is given
// twice under one id is run once, or the conversation tells that it was taken (Turn).
type Runtime interface {
	// Command is what is started, for people, and to notice that another one is.
	Command() string
	// Unnamed returns a mode without the settings that Command itself fixes.
	Unnamed(mode.Mode) mode.Mode
	// NeedsRestart reports whether only another agent can work in another mode.
	NeedsRestart(from, to mode.Mode) bool
	// SendsMessages reports whether an agent writes to the members of its team by itself, as
	// with SendMessage. For one that does not, package reply sends what it answers.
	SendsMessages() bool

	// Encode returns the line that gives an agent a text under an id, or why there can be none.
	Encode(uuid, text string) (line []byte, err error)
	// Frame returns what is known of a line that Encode made.
	Frame(line []byte) (Frame, error)

	// Start starts an agent that begins a conversation, or continues it if there is
	// one. With [ErrUnusable] the relay chooses another id. The end of ctx kills it.
	Start(ctx context.Context, session string, mode mode.Mode) (Agent, error)
	// Predecessor finds the process of an agent that an earlier relay started.
	Predecessor(Process) Predecessor
	// Turn tells what the conversation has of a message, even if no agent runs.
	Turn(ctx context.Context, session, uuid string) (Turn, error)
	// Conversation gives what a conversation has of what its agent said and did since a
	// time, or somewhat before. What the agent told in its events has the same ids. ended
	// says that no agent works on it, so that a turn without an end was cut.
	Conversation(ctx context.Context, session string, since time.Time, ended bool) iter.Seq2[wire.Envelope, error]
}

// Movable is a [Runtime] whose conversations can be moved to a process that no relay has started.
type Movable interface {
	// Moved returns the id under which a conversation continues, and, if a process has it that is not ours, who that is and what ends
	// it, for a person. Until then no agent may be started: there would be two branches of the conversation.
	Moved(session string) (now, holder string)
}

// Agent is an agent that runs. It must be brought to an end with End or Kill.
type Agent interface {
	// ID identifies its process. It is recorded before the first message is sent.
	ID() Process
	// Mode is what it works with from the start.
	Mode() mode.Mode
	// Events gives what it tells, in order, until it has ended. There is one loop at a time.
	Events(context.Context) iter.Seq2[Event, error]
	// Send gives it a line of Encode. Progress events report what becomes of it.
	Send(ctx context.Context, line []byte) error
	// SetMode changes its mode, between two turns, and returns the mode that it has
	// then, also with an error. An [ErrRefused] leaves the agent usable.
	SetMode(ctx context.Context, from, to mode.Mode) (mode.Mode, error)
	// Interrupt stops the turn of a message, or returns [ErrNotInFlight].
	Interrupt(ctx context.Context, uuid string) error
	// CloseInput lets it end once it has nothing more to do.
	CloseInput()
	// End closes its input and ends it, by force after the times of grace. However it
	// exits is no error.
	End(context.Context, Grace) error
	// Kill ends it at once. However it exits is no error.
	Kill() error
	// Wait returns how it ended, once everything that it told can be read.
	Wait(context.Context) error
}

// Forward puts what an agent tells into a channel until it has ended, and closes the channel.
func Forward(ctx context.Context, a Agent, to chan<- Event) {
	defer close(to)
	for e, err := range a.Events(ctx) {
		if err != nil {
			return
		}
		to <- e
	}
}

// Predecessor is the process of an agent that may have outlived its relay.
type Predecessor interface {
	Alive() (bool, error)
	// Wait returns nil when it has ended, or the error of ctx.
	Wait(ctx context.Context) error
	// End ends it, by force after grace.
	End(ctx context.Context, grace time.Duration) error
}

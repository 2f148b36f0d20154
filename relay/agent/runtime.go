package agent

import (
	"context"
	"iter"
	"time"

	"teambridge/relay/mode"
	"teambridge/relay/wire"
)

// Runtime starts agents of one kind and finds out the fate of their messages. TestConformance of package
// relay proves that a relay delivers to them exactly once.
//
// The relay chooses the ids of conversations and messages. A message that is sent twice under one id runs
// once, or the conversation shows that it was taken (Turn).
type Runtime interface {
	// Command returns the command line, for people, and to notice a changed command.
	Command() string
	// Unnamed returns a mode without the settings that Command itself fixes.
	Unnamed(mode.Mode) mode.Mode
	// NeedsRestart reports whether the change of mode takes a new agent.
	NeedsRestart(from, to mode.Mode) bool
	// SendsMessages reports whether agents can write to members of their team, as with SendMessage. For other
	// agents, package reply sends their answers.
	SendsMessages() bool

	// Encode encodes a text under an id as a line for an agent, or fails if that is impossible.
	Encode(uuid, text string) (line []byte, err error)
	// Frame parses a line of Encode.
	Frame(line []byte) (Frame, error)

	// Start starts an agent that begins a conversation, or continues an existing one. If it fails with
	// [ErrUnusable], the relay chooses another id. The end of ctx kills the agent.
	Start(ctx context.Context, session string, mode mode.Mode) (Agent, error)
	// Predecessor finds the process of an agent that an earlier relay started.
	Predecessor(Process) Predecessor
	// Turn returns the conversation's record of a message, even if no agent runs.
	Turn(ctx context.Context, session, uuid string) (Turn, error)
	// Conversation yields the envelopes of a conversation since a time, or somewhat earlier, with the ids
	// that the agent's events had. ended means that no agent runs, so that a turn without an end was cut.
	Conversation(ctx context.Context, session string, since time.Time, ended bool) iter.Seq2[wire.Envelope, error]
}

// Movable is a [Runtime] whose conversations can be moved to a process outside any relay.
type Movable interface {
	// Moved returns the id under which a conversation continues. If another process has it, holder tells a person
	// which process, and how to end it. Until it ends, no agent may be started: that would fork the conversation.
	Moved(session string) (now, holder string)
}

// Agent is a running agent. End or Kill must be called.
type Agent interface {
	// ID identifies its process. It is recorded before the first message is sent.
	ID() Process
	// Mode returns the mode that it started in.
	Mode() mode.Mode
	// Events yields its events, in order, until it has ended. Only one loop may run at a time.
	Events(context.Context) iter.Seq2[Event, error]
	// Send sends a line of Encode. Progress events report its fate.
	Send(ctx context.Context, line []byte) error
	// SetMode changes its mode, between two turns, and returns the resulting mode, even with an error. After
	// an [ErrRefused] the agent is still usable.
	SetMode(ctx context.Context, from, to mode.Mode) (mode.Mode, error)
	// Interrupt stops the turn of a message. It fails with [ErrNotInFlight] if the message has none.
	Interrupt(ctx context.Context, uuid string) error
	// CloseInput lets it end once it is idle.
	CloseInput()
	// End closes its input and waits for its end, using force after the grace periods. Its exit status is no error.
	End(context.Context, Grace) error
	// Kill ends it at once. Its exit status is no error.
	Kill() error
	// Wait returns its exit error, once all its output can be read.
	Wait(context.Context) error
}

// Forward sends an agent's events to a channel until the agent has ended, and closes the channel.
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
	// End ends it, using force after grace.
	End(ctx context.Context, grace time.Duration) error
}

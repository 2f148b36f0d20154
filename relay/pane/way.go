package pane

import (
	"context"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
)

// A way gets messages to one agent: by its socket, its waiting hook, the server or the queue of its program, or its
// terminal. It is made for one look. For all ways, [decide] chooses the action, and the carrier records the result.
type way interface {
	// look returns the facts of a message, and changes nothing: what prevents giving it now or, if an attempt was
	// committed before, the outcome of that attempt.
	look(ctx context.Context, a *attempt) (facts, error)
	// give commits the attempt, gives the message to the agent, and returns the facts after that. A terminal that may
	// have the text already is continued; other agents are given the message again.
	give(ctx context.Context, a *attempt) (facts, error)
}

// attempt is a message with the state of the attempt to give it.
type attempt struct {
	message ledger.PaneMessage
	uuids   []string // of its delivery, and of those that are given with it
	frame   string   // "" until it is committed
	session string   // the process to which it was given, as sessionAt names it; "" for a terminal
	tries   int      // how often it was given to a session
}

// facts are the findings about a message from a look, or from giving it.
type facts struct {
	shown      bool        // the agent has it, as its own record or its screen shows
	altered    bool        // but with another text than was sent
	task       ledger.Task // the state of its task, if it is shown or given up
	transcript string      // the file that has it

	refused string // why the agent, or its person, does not want it
	absent  string // why it is certain that the agent does not have it, and will not
	hold    hold   // why it is not given now, or not again yet
	pending bool   // the look was interrupted, and the next one decides
	last    bool   // it must not be given again
	doubt   string // why nobody knows whether the agent has a message that is given up
}

// hold is why a message waits.
type hold struct {
	why    tmux.Reason
	detail string    // for people
	next   time.Time // when to look again; zero: after the usual time
}

// action is what the carrier does with a message.
type action int

const (
	give     action = iota // give it to the agent, perhaps not for the first time
	confirm                // the agent has it
	refuse                 // it has failed: the agent does not have it, and will not
	takeBack               // it waits again, as if it had not been given
	keep                   // it stays as it is until a later look
	giveUp                 // it has failed: nobody knows whether the agent has it
	leave                  // nothing is recorded
)

// decide returns the action for a message. A message that is shown is never given again, whatever other facts say.
func decide(f facts) action {
	switch {
	case f.shown && f.altered:
		return giveUp
	case f.shown:
		return confirm
	case f.pending:
		return leave
	case f.refused != "":
		return refuse
	case f.absent != "":
		return takeBack
	case f.hold.why != "":
		return keep
	case f.last:
		return giveUp
	}
	return give
}

package pane

import (
	"context"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
)

// A way is how messages get to one agent: its socket, its waiting hook, the server or the queue of its program, or its terminal. It is
// made for one look. What it finds is judged by [decide] and recorded by the carrier, which are the same for all.
type way interface {
	// look says what is known of a message, and changes nothing: what keeps it from being given or, if it was given, or was about to be when a
	// process of ours was killed, what became of that.
	look(ctx context.Context, a *attempt) (facts, error)
	// give commits the attempt, gives the message to the agent, and says what is known then. A terminal in which the text may stand already is
	// continued; other agents are given it again.
	give(ctx context.Context, a *attempt) (facts, error)
}

// attempt is a message with what was made of it to give it.
type attempt struct {
	message ledger.PaneMessage
	uuids   []string // its delivery, and those that are given with it
	frame   string   // "" until it is committed
	session string   // the process to which it was given, as sessionAt names it; "" for a terminal
	tries   int      // how often it was given to a session
}

// facts is what is known of a message after a look, or after it was given.
type facts struct {
	shown      bool        // the agent has it, as its own record or its screen shows
	altered    bool        // but another text than was sent
	task       ledger.Task // how far its task is, if it is shown, or if it is given up
	transcript string      // the file that has it

	refused string // why the agent, or its person, does not want it
	absent  string // why it is certain that the agent does not have it, and will not
	hold    hold   // why it is not given now, or not again yet
	pending bool   // the look was broken off: the next one finds out
	last    bool   // it must not be given again
	doubt   string // what is known of a message that is given up
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
	refuse                 // it has failed: the agent has nothing, and will not
	takeBack               // it waits again, as if it had not been given
	keep                   // it stays as it is until a later look
	giveUp                 // it has failed: nobody knows whether the agent has it
	leave                  // nothing is recorded
)

// decide says what to do with a message. What is shown counts more than all else, since what an agent has must not be given to it again.
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

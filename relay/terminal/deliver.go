package terminal

import (
	"context"
	"errors"
)

// Policy says when a message may be typed.
type Policy string

const (
	Queued    Policy = "queued"    // also to a busy agent, which takes it next
	Important Policy = "important" // as Queued; callers put it before others
	WhenIdle  Policy = "when-idle" // to an idle agent alone
	Urgent    Policy = "urgent"    // a busy agent is interrupted with ESC first
)

// Message is what is typed: `[teambridge NONCE from FROM] TEXT`.
type Message struct {
	Nonce  string // 8 to 64 letters, digits and hyphens, by which transcript and screen are searched
	From   string // optional
	Text   string
	Policy Policy // by default Queued
	// SaveDraft allows a person's draft to be taken out of the composer, and to be put back after the message.
	SaveDraft bool
}

// Steps are called by [Deliver] in its course. Each may be nil. An error of Pasting or Entered stops the delivery before that
// step; the outcome says how far it came.
type Steps struct {
	// Pasting commits that the text is about to be pasted. After it only [Continue] may be called for this message.
	Pasting func(context.Context) error
	// Entered commits that Enter is about to be pressed; it is called once.
	Entered func(context.Context) error
	// Submitted reports whether the agent's transcript holds the nonce. It is asked several times a second.
	Submitted func(context.Context) (bool, error)
}

var errNotBuilt = errors.New("terminal: not built yet")

// Deliver types one message into a pane and presses Enter, or says why not. It takes from half a second to a minute. The
// caller holds a lock for the pane, over all processes.
//
// An error is of bad input ([Message.Check]), of ctx, of a step or of tmux. The outcome is valid also with an error.
func Deliver(ctx context.Context, r Ref, p Profile, m Message, s Steps) (Outcome, error) {
	return Outcome{State: NotSent}, errNotBuilt
}

// Continue finishes a delivery whose process was killed after [Steps.Pasting], or that ended as [Stuck]. It never pastes: if
// the composer holds exactly the message it presses Enter; otherwise it finds out what it can.
func Continue(ctx context.Context, r Ref, p Profile, m Message, s Steps) (Outcome, error) {
	return Outcome{State: Unconfirmed, Pasted: true}, errNotBuilt
}

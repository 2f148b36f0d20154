package bridge

import (
	"context"

	"teambridge/inbox/mail"
	"teambridge/relay/fleet"
	"teambridge/teams"
)

// Carrying is the part of a service that a [Local] needs: it delivers sent messages, and runs agents. In a
// command, its functions do nothing.
type Carrying struct {
	Fleet         *fleet.Fleet         // runs the agents; nil in a command and in a read-only service
	Conversations *teams.Conversations // caches of transcripts

	Sent   func()            // call after a change of the ledger
	Queued func()            // call after a change of the panes' queues
	Moved  func(team string) // call after a request to move a session of a team

	News func() (news <-chan struct{}, done func()) // signals when the journal has more

	// Record records a row that was put into an inbox. Follow starts to follow rows of a sender until their
	// outcome is known. If it returns true, it will close the sender's team.
	Record func(ctx context.Context, sender *mail.Sender, d mail.Delivered)
	Follow func(sender *mail.Sender, put []mail.Delivered) bool

	alone bool // set in a command
}

// forCommand returns the Carrying of a command, in which no part of a service runs.
func forCommand() *Carrying {
	nothing := func() {}
	return &Carrying{alone: true, Sent: nothing, Queued: nothing, Moved: func(string) {}, News: func() (<-chan struct{}, func()) { return nil, nothing }}
}

// pokeFleet makes a service look at its relays now.
func (c *Carrying) pokeFleet() {
	if c.Fleet != nil {
		c.Fleet.Poke()
	}
}

// Control controls agents: their relays, questions, deliveries and the places of their sessions.
type Control struct {
	*Targets

	carrying *Carrying
}

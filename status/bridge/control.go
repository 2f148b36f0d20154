package bridge

import (
	"context"

	"teambridge/inbox/mail"
	"teambridge/relay/fleet"
	"teambridge/teams"
)

// Carrying is what a [Local] has in a service, which carries what was sent, and runs agents. That of a command does nothing.
type Carrying struct {
	Fleet         *fleet.Fleet         // the agents; nil in a command, and in a service that is read-only
	Conversations *teams.Conversations // what was read of transcripts

	Sent   func()            // the ledger has more
	Queued func()            // the queues of panes have changed
	Moved  func(team string) // a session of a team is asked to move

	News func() (news <-chan struct{}, done func()) // signals when the journal has more

	// Record records a row that was put into an inbox, and Follow finds out what becomes of those of a sender: if it returns
	// true, it will close the sender's team.
	Record func(ctx context.Context, sender *mail.Sender, d mail.Delivered)
	Follow func(sender *mail.Sender, put []mail.Delivered) bool

	alone bool // it serves a command
}

// alone is the control of a command, for which nobody waits.
func alone() *Carrying {
	nothing := func() {}
	return &Carrying{alone: true, Sent: nothing, Queued: nothing, Moved: func(string) {}, News: func() (<-chan struct{}, func()) { return nil, nothing }}
}

// pokeFleet has a service look at its relays now.
func (c *Carrying) pokeFleet() {
	if c.Fleet != nil {
		c.Fleet.Poke()
	}
}

// Control controls agents: their relays, questions, deliveries and places.
type Control struct {
	*Targets

	carrying *Carrying
}

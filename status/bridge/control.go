package bridge

import (
	"context"

	"teambridge/inbox/mail"
	"teambridge/relay/fleet"
	"teambridge/teams"
)

// Carrying is what a [Local] has in a service, which carries what was sent, and runs agents. A command has none.
type Carrying struct {
	Fleet         *fleet.Fleet         // the agents; nil in a service that is read-only
	Conversations *teams.Conversations // what was read of transcripts

	Sent   func()            // the ledger has more
	Queued func()            // the queues of panes have changed
	Moved  func(team string) // a session of a team is asked to move

	News func() (news <-chan struct{}, done func()) // signals when the journal has more

	// Record records a row that was put into an inbox, and Follow finds out what becomes of those of a sender: if it returns
	// true, it will close the sender's team.
	Record func(ctx context.Context, sender *mail.Sender, d mail.Delivered)
	Follow func(sender *mail.Sender, put []mail.Delivered) bool
}

// fleet returns the agents that a service runs; nil if there are none.
func (c *Carrying) fleet() *fleet.Fleet {
	if c == nil {
		return nil
	}
	return c.Fleet
}

// pokeFleet has a service look at its relays now.
func (c *Carrying) pokeFleet() {
	if f := c.fleet(); f != nil {
		f.Poke()
	}
}

// sent says that there is news in the ledger.
func (c *Carrying) sent() {
	if c != nil {
		c.Sent()
	}
}

// news returns the signals of the journal; none in a command.
func (c *Carrying) news() (news <-chan struct{}, done func()) {
	if c == nil {
		return nil, func() {}
	}
	return c.News()
}

// conversations is what a service has read of transcripts; nil in a command, which reads them as it needs them.
func (c *Carrying) conversations() *teams.Conversations {
	if c == nil {
		return nil
	}
	return c.Conversations
}

// Control controls agents: their relays, questions, deliveries and places.
type Control struct {
	*Targets

	carrying *Carrying
}

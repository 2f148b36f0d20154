package op

// The parts that requests of several operations have.
type (
	// None is an empty request.
	None struct{}

	// OfTeam names a team.
	OfTeam struct {
		Team string `path:"team"` // the name of a team
	}
	// OfMember names a member of a team.
	OfMember struct {
		OfTeam
		Member string `path:"member"` // a name, or lead
	}
	// OfSession names a session.
	OfSession struct {
		Session string `path:"session"` // the id of a session of Claude Code, or of OpenCode, which begins with ses_
	}
	// OfRelay names a relay.
	OfRelay struct {
		Relay string `path:"relay"` // the id of a relay; or its member, as MEMBER@TEAM, or the beginning of its id, 4 characters or more, if no other relay is meant
	}
	// OfDelivery names a delivery.
	OfDelivery struct {
		Delivery string `path:"delivery"` // the id of a delivery; of one that has not ended, the beginning is enough, 4 characters or more
	}
	// OfPane names a pane.
	OfPane struct {
		Pane string `path:"pane"` // the name that it is registered under
	}
	// OfMachine names a machine.
	OfMachine struct {
		Machine string `path:"machine"` // the name of another machine
	}
	// InTeam can limit a request to one team.
	InTeam struct {
		Team string `query:"team"` // only of this team
	}
	// FromSender can limit a request to the messages of one sender.
	FromSender struct {
		Sender string `query:"sender"` // only messages of this sender
	}
	// Key is the id of a message.
	Key struct {
		ID string `header:"Idempotency-Key" maxLength:"258"` // the id of the message, in quotes or not. Sending again under the same id sends once
	}
	// Resume is where a stream of events goes on.
	Resume struct {
		LastEventID string `header:"Last-Event-ID"` // of a stream: an id, which overrides after
	}
	// With has a body.
	With[B any] struct {
		Body B `body:"application/json"`
	}
)

// Of names a member.
func Of(team, member string) OfMember { return OfMember{OfTeam{team}, member} }

// EventStream is the media type of server-sent events.
const EventStream = "text/event-stream"

// added returns the status of a request to add something that may exist already.
func added(now bool) int {
	if now {
		return 201
	}
	return 200
}

func (q OfTeam) name() string     { return q.Team }
func (q OfRelay) name() string    { return q.Relay }
func (q OfDelivery) name() string { return q.Delivery }
func (q OfPane) name() string     { return q.Pane }
func (q OfMachine) name() string  { return q.Machine }
func (q InTeam) name() string     { return q.Team }

package op

import (
	"context"

	"teambridge/status/api"
)

// List the relays of headless agents: first those that were added to the service, the oldest first, then those of
// "teambridge run", without created. The service cannot control the latter (409).
var Relays = Op[RelaysQuery, []api.RelayEntry]{
	Route: Route{Method: "GET", Path: "/v1/relays", Answers: []Answer{{200, "relays"}}},
	Do: func(ctx context.Context, b api.Bridge, q RelaysQuery) ([]api.RelayEntry, error) {
		return b.Relays(ctx, q.Team)
	},
}

// Add a relay: the service runs a headless agent as a member of a team, whenever a team with that name exists, and resumes
// its session after the agent or the service ended. In a team that was created with createTeam, an agent under a new name
// becomes a member. A member has one relay: 409 if it has one with other settings.
//
// The command runs as the user of the service, with the environment of the service.
var AddRelay = Op[With[api.NewRelay], api.RelayEntry]{
	Route: Route{Method: "POST", Path: "/v1/relays", Changes: true, Answers: []Answer{{200, "it was added before with the same settings"}, {201, "it was added, and starts when its team exists"}}, Errors: []int{409, 422}},
	Do:    body(api.Bridge.AddRelay),
	Code: func(_ With[api.NewRelay], e api.RelayEntry) (int, string) {
		return added(e.Added), "/v1/relays/" + e.ID
	},
}

// Get one relay.
var Relay = Op[RelayQuery, api.RelayEntry]{
	Route: Route{Method: "GET", Path: "/v1/relays/{relay}", Answers: []Answer{{200, "the relay"}}, Errors: []int{404}},
	Do: func(ctx context.Context, b api.Bridge, q RelayQuery) (api.RelayEntry, error) {
		return b.Relay(ctx, q.Team, q.Relay)
	},
}

// Remove a relay. The agent may finish its turn, for 30 s; the answer does not wait for that. Waiting messages stay where
// they are. An agent that became a member when its relay was added leaves the team after it has ended. With deleteTeam, the
// team that was created for the agent (createTeam) is removed after the agent has ended, with the messages in it. 409
// conflict, and nothing is removed, if the team has other agents or is not that team any more. 409 conflict also for a
// relay of teambridge run.
var RemoveRelay = Op[RemoveRelayRequest, api.RelayEntry]{
	Route: Route{Method: "DELETE", Path: "/v1/relays/{relay}", Changes: true, Answers: []Answer{{200, "the removed relay"}}, Errors: []int{404, 409}},
	Do: func(ctx context.Context, b api.Bridge, q RemoveRelayRequest) (api.RelayEntry, error) {
		return b.RemoveRelay(ctx, q.Relay, q.DeleteTeam)
	},
}

// Stop the current turn of an agent. Its messages become cancelled and are not sent again. 409 not_in_flight if no turn is
// running.
var Interrupt = Op[OfRelay, api.RelayEntry]{
	Route: Route{Method: "POST", Path: "/v1/relays/{relay}/interrupt", Changes: true, Answers: []Answer{{200, "the relay"}}, Errors: []int{404, 409}},
	Do:    of[OfRelay](api.Bridge.Interrupt),
}

// Start an agent again that was given up, or that waits for its next start. 409 conflict if it is running.
var RetryRelay = Op[OfRelay, api.RelayEntry]{
	Route: Route{Method: "POST", Path: "/v1/relays/{relay}/retry", Changes: true, Answers: []Answer{{200, "the relay"}}, Errors: []int{404, 409}},
	Do:    of[OfRelay](api.Bridge.RetryRelay),
}

// Hold back the messages between two members, in each direction that a relay delivers, until they are released.
// Messages claimed before are delivered; the others wait unread, in order.
var Hold = Op[HoldRequest, []api.Hold]{
	Route: Route{Method: "POST", Path: "/v1/teams/{team}/members/{member}/hold", Changes: true, Answers: []Answer{{200, "the holds"}}, Errors: []int{404, 409}},
	Do: func(ctx context.Context, b api.Bridge, q HoldRequest) ([]api.Hold, error) {
		return b.Hold(ctx, q.Team, q.Member, q.Sender)
	},
}

// Release messages that are held back because the member and the sender answered each other too often, or by a person. They
// are relayed in order, and answers are counted from 0 again.
var Release = Op[ReleaseRequest, []api.Hold]{
	Route: Route{Method: "POST", Path: "/v1/teams/{team}/members/{member}/release", Changes: true, Answers: []Answer{{200, "the holds that were released"}}, Errors: []int{404}},
	Do: func(ctx context.Context, b api.Bridge, q ReleaseRequest) ([]api.Hold, error) {
		return b.Release(ctx, q.Team, q.Member, q.Sender)
	},
}

// List the open questions, the oldest first: of agents that were added with permissions ask, and of sessions, if they
// can be answered away from the terminal. 404 not_found if this service runs no agents, and no session asks.
var Questions = Op[InTeam, []api.Asked]{
	Route: Route{Method: "GET", Path: "/v1/questions", Answers: []Answer{{200, "open questions"}}, Errors: []int{404}},
	Do:    of[InTeam](api.Bridge.Questions),
}

// Get one open question. 409 conflict if it was answered, or was withdrawn. It is answered with POST
// to the same path.
var Question = Op[QuestionQuery, api.Asked]{
	Route: Route{Method: "GET", Path: "/v1/questions/{question}", Answers: []Answer{{200, "the question"}}, Errors: []int{404, 409}},
	Do: func(ctx context.Context, b api.Bridge, q QuestionQuery) (api.Asked, error) {
		return b.Question(ctx, q.Team, q.Question)
	},
}

// Answer a question. 404 not_found if there is no such question; 409 conflict if it was answered before, is withdrawn, or has another
// digest; 422 invalid if the answer does not fit. Each refusal changes nothing.
var AnswerQuestion = Op[AnswerRequest, api.Asked]{
	Route: Route{Method: "POST", Path: "/v1/questions/{question}", Changes: true, Answers: []Answer{{200, "the question in its new state"}}, Errors: []int{404, 409}},
	Do: func(ctx context.Context, b api.Bridge, q AnswerRequest) (api.Asked, error) {
		return b.Answer(ctx, q.Question, q.Body)
	},
}

// List the deliveries to all agents, the newest first.
var Deliveries = Op[api.DeliveryQuery, []api.Delivery]{
	Route: Route{Method: "GET", Path: "/v1/deliveries", Large: true, Answers: []Answer{{200, "deliveries"}}},
	Do: func(ctx context.Context, b api.Bridge, q api.DeliveryQuery) ([]api.Delivery, error) {
		return b.Deliveries(ctx, q)
	},
}

// Put a failed delivery into the queue again. 409 conflict if it has not failed.
var RetryDelivery = Op[OfDelivery, api.Delivery]{
	Route: Route{Method: "POST", Path: "/v1/deliveries/{delivery}/retry", Changes: true, Answers: []Answer{{200, "the delivery"}}, Errors: []int{404, 409}},
	Do:    of[OfDelivery](api.Bridge.RetryDelivery),
}

// Give up a waiting or failed delivery: the agent never gets it. 409 conflict if it is in progress or has ended.
var DropDelivery = Op[OfDelivery, api.Delivery]{
	Route: Route{Method: "POST", Path: "/v1/deliveries/{delivery}/drop", Changes: true, Answers: []Answer{{200, "the delivery"}}, Errors: []int{404, 409}},
	Do:    of[OfDelivery](api.Bridge.DropDelivery),
}

// List what the agent of a relay said and did, as envelopes of the session protocol, including agents of earlier teams with
// the same name. Without after, or with before, these are the last envelopes, otherwise the first ones after that number;
// always oldest first.
//
// With Accept: text/event-stream, the answer is a stream of server-sent events instead: envelope (Envelope), each once and
// in order, and reset (Reset), with the ids of /v1/events. It begins after the event of Last-Event-ID, or after, or with
// the next event; it takes neither before nor limit.
var Envelopes = Op[EnvelopesQuery, api.Envelopes]{
	Route: Route{Method: "GET", Path: "/v1/relays/{relay}/events", Large: true, Answers: []Answer{{200, "envelopes"}}, Errors: []int{404}},
}

// EnvelopeEvents is [Envelopes] as a stream of events.
var EnvelopeEvents = Op[EnvelopeEventsQuery, None]{Route: Route{Method: "GET", Path: "/v1/relays/{relay}/events", Media: EventStream}}

// Ask for the session of a member to be moved between a person's terminal and a relay. The answer does not wait for that;
// snapshots, status and members say where the session is, why it is held, and why a request was refused. 409 conflict if
// the session cannot move: only teambridge run --local can move one.
var Move = Op[MoveRequest, api.Placed]{
	Route: Route{Method: "POST", Path: "/v1/teams/{team}/members/{member}/place", Changes: true, Answers: []Answer{{200, "where it is now"}}, Errors: []int{404, 409}},
	Do: func(ctx context.Context, b api.Bridge, q MoveRequest) (api.Placed, error) {
		return b.Move(ctx, q.Team, q.Member, q.Body)
	},
}

// The requests of operations of relays.
type (
	RelaysQuery struct {
		Team string `query:"team"` // only of teams with this name
	}
	RelayQuery struct {
		OfRelay
		Team string `query:"team"` // the team of a member that is named without one
	}
	RemoveRelayRequest struct {
		OfRelay
		DeleteTeam bool `query:"deleteTeam"` // also remove the team that was created for it
	}
	HoldRequest struct {
		OfMember
		Sender string `query:"sender,required"` // the other member
	}
	ReleaseRequest struct {
		OfMember
		FromSender
	}
	QuestionQuery struct {
		InTeam
		Question string `path:"question"` // its id, or the beginning of it, 4 characters or more
	}
	AnswerRequest struct {
		Question string `path:"question"` // its id, or the beginning of it, 4 characters or more
		With[api.Permit]
	}
	EnvelopeEventsQuery struct {
		OfRelay
		After string `query:"after"` // only with a higher seq; of a stream, also the id of an event
		Resume
	}
	EnvelopesQuery struct {
		OfRelay
		After   int64 `query:"after"` // only with a higher seq
		Forward bool  `query:"after,given"`
		Before  int64 `query:"before"`                                // only with a lower seq
		Limit   int   `query:"limit" min:"1" max:"500" default:"100"` // the largest number of items
	}
	MoveRequest struct {
		OfMember
		With[api.NewPlace]
	}
)

package op

import (
	"context"
	"time"

	"teambridge/status/api"
)

// Send a message. When the answer comes, the message is in the inbox and was read back, or in the queue of a relay or pane;
// receipt events say what happens to it.
//
// In the team tmux, and with via, the message is typed into a tmux pane. It is recorded when the answer comes (state,
// reason), and relay and receipt events say what happens to it. To a headless member that this service relays to
// (/v1/relays), or whose session can move (Place), a message from one of the person's own names is a user prompt. It is not
// put into the inbox, but into the queue of the relay, ahead of waiting rows, and reaches the agent as plain text, or as a
// command if it begins with a slash. It is committed when the answer comes (delivery), consumed once the agent began a turn
// with it, and lost if it failed or was given up before that. The history has it as a message to that inbox, with person. A
// prompt to a session that is at a person's terminal brings it to its relay once its turn has ended. Only prompts can have
// mode and isolated; for other messages the answer is 422. Every other message is a row of the inbox, even to a member that
// another process relays to without being able to move its session: the agent learns that a teammate sent it. The body can
// also be payloads of the session protocol, one per line, in the legacy form (role user) or as an envelope of the user with
// a text (role session). They are always prompts; for other members the answer is 422. Their meta is the mode; displayText
// becomes the summary. A permission mode that is not Claude Code's own is refused unless serve --permission-mode-map maps
// it. The id of an envelope, or localKey, is the id of the message, and there is no Idempotency-Key. All lines are checked
// before any is sent, and they are committed together: on an error nothing is sent. Of the two forms one is dropped:
// envelopes, or, if ENABLE_SESSION_PROTOCOL_SEND is 1, true or yes in the environment of the service, the legacy form.
var Send = Op[SendRequest, api.Sent]{
	Route: Route{Method: "POST", Path: "/v1/teams/{team}/members/{member}/messages", Who: Agents, Changes: true, Answers: []Answer{{201, "it was sent; SentPayloads for payloads"}, {200, "it was sent before under this key; no payload is new"}}, Errors: []int{404, 409, 422, 423}},
	Do: func(ctx context.Context, b api.Bridge, q SendRequest) (api.Sent, error) {
		return b.Send(ctx, q.Team, q.Member, q.ID, q.Body)
	},
	Code: func(q SendRequest, s api.Sent) (int, string) {
		if s.Deduplicated || q.Body.DryRun {
			return 200, ""
		}
		return 201, ""
	},
}

// SendPayloads is [Send] with payloads of the session protocol as the body.
var SendPayloads = Op[SendPayloadsRequest, api.SentPayloads]{Route: Route{Method: "POST", Path: "/v1/teams/{team}/members/{member}/messages", Who: Agents, Changes: true}}

// Send a message to every agent except the lead. With a key, each message has the id KEY-MEMBER.
var Broadcast = Op[BroadcastRequest, []api.Sent]{
	Route: Route{Method: "POST", Path: "/v1/teams/{team}/broadcast", Changes: true, Answers: []Answer{{201, "it was sent to all"}, {207, "it was not sent to some: those have an error"}}},
	Do: func(ctx context.Context, b api.Bridge, q BroadcastRequest) ([]api.Sent, error) {
		return b.Broadcast(ctx, q.Team, q.ID, q.Body)
	},
	Code: func(_ BroadcastRequest, all []api.Sent) (int, string) {
		for _, s := range all {
			if s.Error != nil {
				return 207, ""
			}
		}
		return 201, ""
	},
}

// Wait until a message that was sent through the service has reached a state. The request lasts as a stream of
// /v1/events does.
var Await = Op[AwaitQuery, api.Sent]{
	Route: Route{Method: "GET", Path: "/v1/teams/{team}/members/{member}/outcome", Who: Agents, Lasts: "it stays sent; wait again", Answers: []Answer{{200, "the message as it is then. If it did not reach that state, error says why: timeout, lost, unknown, gone, refused"}}},
}

// Get what happened to a message that was sent through the service. Events say when that changes.
var Receipt = Op[ReceiptQuery, api.Receipt]{
	Route: Route{Method: "GET", Path: "/v1/teams/{team}/members/{member}/receipt", Who: Agents, Answers: []Answer{{200, "the receipt"}}, Errors: []int{404}},
}

// Send a message to a member, wait for its answer, and return it.
//
// The person joins the team as operator first, unless they have joined it, since some agents can only write to members. The
// request lasts until there is an answer, and then as long as a stream of /v1/events: it ends with the client or the
// service, and the message stays sent. Errors: timeout (504), no_answer (502) if the turn with the message ended without an
// answer, failed or was interrupted, not_found (404) if nobody can answer.
var Ask = Op[AskRequest, api.Answered]{
	Route: Route{Method: "POST", Path: "/v1/teams/{team}/members/{member}/ask", Who: Agents, Changes: true, Lasts: "if the message was sent, it stays sent; wait for a later answer with: teambridge wait --for reply", Answers: []Answer{{200, "the message with its answer"}}},
	Do: func(ctx context.Context, b api.Bridge, q AskRequest) (api.Answered, error) {
		return b.Ask(ctx, q.Team, q.Member, q.ID, q.Body)
	},
}

// Answer a message to the person: send a message to its author.
//
// An agent answers a message to the sender of the answer. The answered message stays unread. With ask, the request
// lasts as that of /v1/teams/{team}/members/{member}/ask does. Errors: not_found (404) if there is no such message,
// usage (400) if several have the id.
var Reply = Op[ReplyRequest, api.Replied]{
	Route: Route{Method: "POST", Path: "/v1/reply", Who: Agents, Changes: true, Lasts: Ask.Lasts, Answers: []Answer{{200, "the answered message, and the state of the answer"}}},
	Do: func(ctx context.Context, b api.Bridge, q ReplyRequest) (api.Replied, error) {
		return b.Reply(ctx, q.ID, q.Body)
	},
}

// Wait until something happens in a team. The request lasts as a stream of /v1/events does.
var Wait = Op[WaitQuery, api.Happened]{
	Route: Route{Method: "GET", Path: "/v1/teams/{team}/wait", Lasts: "wait again", Answers: []Answer{{200, "what has happened"}}},
	Do: func(ctx context.Context, b api.Bridge, q WaitQuery) (api.Happened, error) {
		return b.Wait(ctx, q.Team, q.Occasion)
	},
}

// Read the messages in inboxes now, oldest first; of the team tmux, those that wait to be typed. Recorded messages
// are at /v1/teams/{team}/messages.
var Read = Op[ReadQuery, api.Rows]{
	Route: Route{Method: "GET", Path: "/v1/teams/{team}/inboxes", Who: Agents, Large: true, Answers: []Answer{{200, "the messages"}}},
	Do: func(ctx context.Context, b api.Bridge, q ReadQuery) (api.Rows, error) {
		return b.Read(ctx, q.Team, q.Reading)
	},
}

// Mark messages in an inbox of the person as read.
var MarkRead = Op[MarkReadRequest, api.Marked]{
	Route: Route{Method: "POST", Path: "/v1/teams/{team}/read", Changes: true, Answers: []Answer{{200, "how many were marked"}}},
	Do: func(ctx context.Context, b api.Bridge, q MarkReadRequest) (api.Marked, error) {
		return b.MarkRead(ctx, q.Team, q.Body)
	},
}

// The requests of operations of messages.
type (
	SendRequest struct {
		OfMember
		Key
		With[api.NewMessage]
	}
	SendPayloadsRequest struct {
		OfMember
		Lines []byte `body:"application/x-ndjson; profile=wire"` // a payload of the session protocol on each line; blank lines are skipped
	}
	BroadcastRequest struct {
		OfTeam
		Key
		With[api.NewBroadcast]
	}
	AwaitQuery struct {
		OfTeam
		Member string `path:"member"` // as in the answer to the message
		// consumed: the agent has taken it; seen: its model was given it; confirmed: the agent in the pane has taken it; on the
		// way to another machine also stored, received and verified
		Until    string        `query:"until,required" enum:"consumed,seen,confirmed,stored,received,verified"`
		ID       string        `query:"id"`       // of the message; needed for consumed and seen
		Delivery string        `query:"delivery"` // as in the answer to the message; needed for confirmed, and for a message to another machine
		Timeout  time.Duration `query:"timeout"`  // how long to wait, such as 30s; default: forever
	}
	ReceiptQuery struct {
		OfTeam
		Member    string `path:"member"`       // as in the answer to the message
		ID        string `query:"id,required"` // of the message
		CreatedAt int64  `query:"createdAt"`   // the team's, in milliseconds, if several teams had the name
	}
	AskRequest struct {
		OfMember
		Key
		With[api.NewQuestion]
	}
	ReplyRequest struct {
		Key
		With[api.NewReply]
	}
	WaitQuery struct {
		OfTeam
		api.Occasion
	}
	ReadQuery struct {
		OfTeam
		api.Reading
	}
	MarkReadRequest struct {
		OfTeam
		With[api.MarkRead]
	}
)

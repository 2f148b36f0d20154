package op

import (
	"context"

	"teambridge/status/api"
)

// Get this machine's name and card, the state of its connection with the hub, and the machines it has links with.
var Links = Op[None, api.Links]{
	Route: Route{Method: "GET", Path: "/v1/links", Answers: []Answer{{200, "links; without a name, there are none"}}},
	Do:    none(api.Bridge.Links),
}

// Set the name and hub of this machine. Missing fields keep their values. The first time, the machine gets its keys.
var SetLink = Op[With[api.NewLink], api.Links]{
	Route: Route{Method: "PUT", Path: "/v1/links", Changes: true, Answers: []Answer{{200, "the links"}}, Errors: []int{409, 422}},
	Do:    body(api.Bridge.SetLink),
}

// Make a link with another machine, by its card, which is pinned: 409 conflict if there is a link with another card under
// that name, unless it is replaced.
var AddMachine = Op[With[api.NewMachine], api.Machine]{
	Route: Route{Method: "POST", Path: "/v1/machines", Changes: true, Answers: []Answer{{200, "the machine"}}, Errors: []int{409, 422}},
	Do:    body(api.Bridge.AddMachine),
}

// End the link with a machine. It can reach nothing here any more, the entries that stand for its members leave their
// teams, and messages that it has not confirmed have failed.
var RemoveMachine = Op[OfMachine, api.Machine]{
	Route: Route{Method: "DELETE", Path: "/v1/machines/{machine}", Changes: true, Answers: []Answer{{200, "the machine as it was"}}, Errors: []int{404}},
	Do:    of[OfMachine](api.Bridge.RemoveMachine),
}

// Let a machine write to a team here, or stop that. Then the entries that stand for its members leave the team.
var ShareTeam = Op[ShareTeamRequest, api.Machine]{
	Route: Route{Method: "POST", Path: "/v1/machines/{machine}/teams", Changes: true, Answers: []Answer{{200, "the machine"}}, Errors: []int{404, 422}},
	Do: func(ctx context.Context, b api.Bridge, q ShareTeamRequest) (api.Machine, error) {
		return b.ShareTeam(ctx, q.Machine, q.Body)
	},
}

// ShareTeamRequest is the request of [ShareTeam].
type ShareTeamRequest struct {
	OfMachine
	With[api.NewShare]
}

package op

import (
	"context"

	"teambridge/status/api"
)

// List the registered tmux panes, sorted by name, with what was seen in them at the last look, a few seconds ago.
var Panes = Op[None, []api.Pane]{
	Route: Route{Method: "GET", Path: "/v1/panes", Who: Agents, Answers: []Answer{{200, "panes"}}},
	Do:    none(api.Bridge.Panes),
}

// Register a tmux pane under a name. All registered panes are the members of the team tmux, which has no directory: a
// message to one is typed into its program.
var AddPane = Op[With[api.NewPane], api.Pane]{
	Route: Route{Method: "POST", Path: "/v1/panes", Changes: true, Answers: []Answer{{200, "it was registered before, in the same way"}, {201, "it is registered; nothing was sent to it"}}, Errors: []int{404, 409, 422}},
	Do:    body(api.Bridge.AddPane),
	Code:  func(_ With[api.NewPane], p api.Pane) (int, string) { return added(p.Added), "/v1/panes/" + p.Member },
}

// Look at a registered pane now. Nothing is sent to it.
var Pane = Op[OfPane, api.Pane]{
	Route: Route{Method: "GET", Path: "/v1/panes/{pane}", Answers: []Answer{{200, "the pane, with look"}}, Errors: []int{404}},
	Do:    of[OfPane](api.Bridge.Pane),
}

// Look at a registered pane now, and say what a message would do. Nothing is sent to it.
var TestPane = Op[TestPaneQuery, api.PaneTest]{
	Route: Route{Method: "GET", Path: "/v1/panes/{pane}/test", Answers: []Answer{{200, "what it would do"}}, Errors: []int{404}},
	Do: func(ctx context.Context, b api.Bridge, q TestPaneQuery) (api.PaneTest, error) {
		return b.TestPane(ctx, q.Pane, q.Policy)
	},
}

// Remove a registered pane. Messages that wait for it are dropped. The history stays.
var RemovePane = Op[OfPane, api.Pane]{
	Route: Route{Method: "DELETE", Path: "/v1/panes/{pane}", Changes: true, Answers: []Answer{{200, "the pane as it was"}}, Errors: []int{404}},
	Do:    of[OfPane](api.Bridge.RemovePane),
}

// TestPaneQuery is the request of [TestPane].
type TestPaneQuery struct {
	OfPane
	Policy string `query:"policy"` // of the message, as in NewMessage; default: queued
}

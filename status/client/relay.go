package client

import (
	"context"
	"net/http"

	"teambridge/status/api"
)

// Relays returns the relays that were added or run; see [api.Bridge].
func (c *Client) Relays(ctx context.Context, team string) (list []api.RelayEntry, err error) {
	return list, c.get(ctx, "/v1/relays", queryOf("team", team), &list)
}

// Attention returns everything that waits for the person; see [api.Bridge].
func (c *Client) Attention(ctx context.Context, team string) (list []api.Attention, err error) {
	return list, c.get(ctx, "/v1/attention", queryOf("team", team), &list)
}

// Dismiss hides what waits under an id; see [api.Bridge].
func (c *Client) Dismiss(ctx context.Context, id string) (a api.Attention, err error) {
	return a, c.do(ctx, http.MethodPost, "/v1/attention/dismiss", nil, api.Dismiss{ID: id}, &a)
}

// Relay returns the relay that a name means; see [api.Bridge].
func (c *Client) Relay(ctx context.Context, team, name string) (e api.RelayEntry, err error) {
	return e, c.get(ctx, relayPath(name), queryOf("team", team), &e)
}

// AddRelay makes the service run a program, with the rights of its user, as a headless
// member of a team. The error is [api.CodeConflict] if the member has a relay with other
// settings.
func (c *Client) AddRelay(ctx context.Context, n api.NewRelay) (e api.RelayEntry, err error) {
	e.Added, err = c.create(ctx, "/v1/relays", n, &e)
	return e, err
}

// RemoveRelay makes the service stop running an agent, after the agent's current turn; see [api.Bridge].
func (c *Client) RemoveRelay(ctx context.Context, id string, deleteTeam bool) (e api.RelayEntry, err error) {
	return e, c.do(ctx, http.MethodDelete, withQuery(relayPath(id), queryOf("deleteTeam", deleteTeam)), nil, nil, &e)
}

// Interrupt stops the current turn of a relay's agent and cancels its messages. The
// error is [api.CodeNotInFlight] if no turn is running.
func (c *Client) Interrupt(ctx context.Context, id string) (e api.RelayEntry, err error) {
	return e, c.do(ctx, http.MethodPost, relayPath(id)+"/interrupt", nil, nil, &e)
}

// RetryRelay starts an agent again that the service has given up.
func (c *Client) RetryRelay(ctx context.Context, id string) (e api.RelayEntry, err error) {
	return e, c.do(ctx, http.MethodPost, relayPath(id)+"/retry", nil, nil, &e)
}

// Hold holds back what two members write each other; see [api.Bridge].
func (c *Client) Hold(ctx context.Context, team, member, sender string) (list []api.Hold, err error) {
	return list, c.do(ctx, http.MethodPost, withQuery(memberPath(team, member)+"/hold", queryOf("sender", sender)), nil, nil, &list)
}

// Release releases what is held back from a member; see [api.Bridge].
func (c *Client) Release(ctx context.Context, team, member, sender string) (list []api.Hold, err error) {
	return list, c.do(ctx, http.MethodPost, withQuery(memberPath(team, member)+"/release", queryOf("sender", sender)), nil, nil, &list)
}

// Questions returns what agents ask, in one team or, if it is "", in all; see [api.Bridge].
func (c *Client) Questions(ctx context.Context, team string) (list []api.Asked, err error) {
	return list, c.get(ctx, "/v1/questions", queryOf("team", team), &list)
}

// Question returns an open question; see [api.Bridge].
func (c *Client) Question(ctx context.Context, team, id string) (q api.Asked, err error) {
	return q, c.get(ctx, "/v1/questions/"+segment(id), queryOf("team", team), &q)
}

// Permit answers a question of a relay's agent.
func (c *Client) Permit(ctx context.Context, id string, p api.Permit) (e api.RelayEntry, err error) {
	return e, c.do(ctx, http.MethodPost, relayPath(id)+"/permit", nil, p, &e)
}

// Move asks for the session of a member to be moved, and returns where it is. It does not
// wait for the move: [Client.Status] and snapshots say how that goes on. The error is
// [api.CodeConflict] if the session cannot move.
func (c *Client) Move(ctx context.Context, team, member string, n api.NewPlace) (p api.Placed, err error) {
	return p, c.do(ctx, http.MethodPost, memberPath(team, member)+"/place", nil, n, &p)
}

// DeliveryQuery is the query of [Client.Deliveries].
type DeliveryQuery = api.DeliveryQuery

// Deliveries returns the deliveries to the member of a relay or, if it is "", to all agents,
// the newest first.
func (c *Client) Deliveries(ctx context.Context, id string, q DeliveryQuery) (list []api.Delivery, err error) {
	path, v := "/v1/deliveries", queryOf("state", q.State, "limit", q.Limit)
	if id != "" {
		path = relayPath(id) + "/deliveries"
	} else if q.Team != "" {
		v.Set("team", q.Team)
	}
	return list, c.get(ctx, path, v, &list)
}

// EnvelopeQuery selects envelopes. The zero value selects the last 100.
type EnvelopeQuery struct {
	After   int64 // only after this number; 0: from the first one
	Forward bool  // the first ones after After, instead of the last ones
	Before  int64 // only before this number; 0: up to the last one
	Limit   int   // at most 500; 0: 100
}

// Envelopes returns what the agent of a relay said and did, oldest first. See also
// [Client.EnvelopeEvents].
func (c *Client) Envelopes(ctx context.Context, id string, q EnvelopeQuery) (p api.Envelopes, err error) {
	v := queryOf("before", q.Before, "limit", q.Limit)
	if q.Forward || q.After != 0 {
		v.Set("after", After(q.After))
	}
	return p, c.get(ctx, relayPath(id)+"/events", v, &p)
}

// RetryDelivery delivers a failed message again. The first attempt may already be in
// the conversation of the agent.
func (c *Client) RetryDelivery(ctx context.Context, id string) (d api.Delivery, err error) {
	return d, c.do(ctx, http.MethodPost, "/v1/deliveries/"+segment(id)+"/retry", nil, nil, &d)
}

// DropDelivery gives up a waiting or failed delivery: the agent never gets it.
func (c *Client) DropDelivery(ctx context.Context, id string) (d api.Delivery, err error) {
	return d, c.do(ctx, http.MethodPost, "/v1/deliveries/"+segment(id)+"/drop", nil, nil, &d)
}

// Panes returns the registered tmux panes, sorted by name.
func (c *Client) Panes(ctx context.Context) (list []api.Pane, err error) {
	return list, c.get(ctx, "/v1/panes", nil, &list)
}

// Pane looks at a registered pane now. Nothing is sent to it.
func (c *Client) Pane(ctx context.Context, name string) (p api.Pane, err error) {
	return p, c.get(ctx, panePath(name), nil, &p)
}

// TestPane says what a message to a pane would do now; see [api.Bridge].
func (c *Client) TestPane(ctx context.Context, name, policy string) (t api.PaneTest, err error) {
	return t, c.get(ctx, panePath(name)+"/test", queryOf("policy", policy), &t)
}

// AddPane registers a tmux pane under a name. The error is [api.CodeConflict] if the name or
// the pane is registered otherwise.
func (c *Client) AddPane(ctx context.Context, n api.NewPane) (p api.Pane, err error) {
	p.Added, err = c.create(ctx, "/v1/panes", n, &p)
	return p, err
}

// RemovePane removes a registered pane, and drops the messages that wait for it. It returns
// the pane as it was.
func (c *Client) RemovePane(ctx context.Context, name string) (p api.Pane, err error) {
	return p, c.do(ctx, http.MethodDelete, panePath(name), nil, nil, &p)
}

func panePath(name string) string { return "/v1/panes/" + segment(name) }

func relayPath(id string) string { return "/v1/relays/" + segment(id) }

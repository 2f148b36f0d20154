package client

import (
	"context"
	"net/http"
	"net/url"

	"teambridge/status/api"
)

// RelayQuery says which relays are wanted. The zero value is for all.
type RelayQuery struct {
	Team string // only of teams of this name
}

// Relays returns the relays that the service is to run, and those that are, or
// were, run by others.
func (c *Client) Relays(ctx context.Context, q RelayQuery) (list []api.RelayEntry, err error) {
	v := query{}
	v.text("team", q.Team)
	return list, c.get(ctx, "/v1/relays", v, &list)
}

// AddRelay has the service run a program as a headless member of a team, as the
// service's user. The error is a *[api.Problem] with [api.CodeConflict] where there
// is one for this member.
func (c *Client) AddRelay(ctx context.Context, n api.NewRelay) (e api.RelayEntry, err error) {
	return e, c.ask(ctx, http.MethodPost, "/v1/relays", nil, n, &e)
}

// RemoveRelay has the service run an agent no more: it may finish its turn. What
// waits for it stays where it is. It returns the relay as it was.
func (c *Client) RemoveRelay(ctx context.Context, id string) (e api.RelayEntry, err error) {
	return e, c.ask(ctx, http.MethodDelete, relayed(id), nil, nil, &e)
}

// Interrupt stops the turn that the agent of a relay is at: what it was about is
// cancelled. The error is a *[api.Problem] with [api.CodeNotInFlight] where none
// runs.
func (c *Client) Interrupt(ctx context.Context, id string) (e api.RelayEntry, err error) {
	return e, c.ask(ctx, http.MethodPost, relayed(id)+"/interrupt", nil, nil, &e)
}

// RetryRelay tries an agent again that the service gave up.
func (c *Client) RetryRelay(ctx context.Context, id string) (e api.RelayEntry, err error) {
	return e, c.ask(ctx, http.MethodPost, relayed(id)+"/retry", nil, nil, &e)
}

// ReleaseRelay releases what is held for the agent of a relay: the messages of one
// sender, or of all if sender is "". It returns what was held, none if nothing was.
func (c *Client) ReleaseRelay(ctx context.Context, id, sender string) (list []api.Hold, err error) {
	path := relayed(id) + "/release"
	if sender != "" {
		path += "?" + url.Values{"sender": {sender}}.Encode()
	}
	return list, c.ask(ctx, http.MethodPost, path, nil, nil, &list)
}

// Permit answers what the agent of a relay asks a person to allow.
func (c *Client) Permit(ctx context.Context, id string, p api.Permit) (e api.RelayEntry, err error) {
	return e, c.ask(ctx, http.MethodPost, relayed(id)+"/permit", nil, p, &e)
}

// DeliveryQuery says which deliveries are wanted. The zero value is for the last
// 100, in whatever state.
type DeliveryQuery struct {
	State string // several with commas between them
	Limit int    // at most 500; 0: 100
}

// Deliveries returns what was, or is to be, brought to the member of a relay, the
// newest first.
func (c *Client) Deliveries(ctx context.Context, id string, q DeliveryQuery) (list []api.Delivery, err error) {
	v := query{}
	v.text("state", q.State)
	v.number("limit", int64(q.Limit))
	return list, c.get(ctx, relayed(id)+"/deliveries", v, &list)
}

// RetryDelivery has a delivery said again that failed, though what came of its first
// saying may stand in the conversation.
func (c *Client) RetryDelivery(ctx context.Context, id string) (d api.Delivery, err error) {
	return d, c.ask(ctx, http.MethodPost, "/v1/deliveries/"+segment(id)+"/retry", nil, nil, &d)
}

// DropDelivery gives up a delivery that waits or failed: it is never said.
func (c *Client) DropDelivery(ctx context.Context, id string) (d api.Delivery, err error) {
	return d, c.ask(ctx, http.MethodPost, "/v1/deliveries/"+segment(id)+"/drop", nil, nil, &d)
}

func relayed(id string) string { return "/v1/relays/" + segment(id) }

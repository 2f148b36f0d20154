package client

import (
	"context"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

// relays has the operations on relays, deliveries and questions.
type relays struct{ *conn }

// Relays returns the relays that were added or run; see [api.Bridge].
func (c relays) Relays(ctx context.Context, team string) ([]api.RelayEntry, error) {
	return call(ctx, c.conn, &op.Relays, op.RelaysQuery{Team: team})
}

// Relay resolves the name or id of a relay; see [api.Bridge].
func (c relays) Relay(ctx context.Context, team, name string) (api.RelayEntry, error) {
	return call(ctx, c.conn, &op.Relay, op.RelayQuery{OfRelay: op.OfRelay{Relay: name}, Team: team})
}

// AddRelay makes the service run an agent; see [api.Bridge].
func (c relays) AddRelay(ctx context.Context, n api.NewRelay) (e api.RelayEntry, err error) {
	e, e.Added, err = added(ctx, c.conn, &op.AddRelay, op.With[api.NewRelay]{Body: n})
	return e, err
}

// RemoveRelay makes the service stop running an agent, after the agent's current turn; see [api.Bridge].
func (c relays) RemoveRelay(ctx context.Context, id string, deleteTeam bool) (api.RelayEntry, error) {
	return call(ctx, c.conn, &op.RemoveRelay, op.RemoveRelayRequest{OfRelay: op.OfRelay{Relay: id}, DeleteTeam: deleteTeam})
}

// Interrupt stops the current turn of a relay's agent; see [api.Bridge].
func (c relays) Interrupt(ctx context.Context, id string) (api.RelayEntry, error) {
	return call(ctx, c.conn, &op.Interrupt, op.OfRelay{Relay: id})
}

// RetryRelay starts an agent again that the service has given up.
func (c relays) RetryRelay(ctx context.Context, id string) (api.RelayEntry, error) {
	return call(ctx, c.conn, &op.RetryRelay, op.OfRelay{Relay: id})
}

// Hold holds back the messages between two members; see [api.Bridge].
func (c relays) Hold(ctx context.Context, team, member, sender string) ([]api.Hold, error) {
	return call(ctx, c.conn, &op.Hold, op.HoldRequest{OfMember: op.Of(team, member), Sender: sender})
}

// Release releases the held messages to a member; see [api.Bridge].
func (c relays) Release(ctx context.Context, team, member, sender string) ([]api.Hold, error) {
	return call(ctx, c.conn, &op.Release, op.ReleaseRequest{OfMember: op.Of(team, member), FromSender: op.FromSender{Sender: sender}})
}

// Questions returns the open questions of agents, in one team or, if team is "", in all; see [api.Bridge].
func (c relays) Questions(ctx context.Context, team string) ([]api.Asked, error) {
	return call(ctx, c.conn, &op.Questions, op.InTeam{Team: team})
}

// Question returns an open question; see [api.Bridge].
func (c relays) Question(ctx context.Context, team, id string) (api.Asked, error) {
	return call(ctx, c.conn, &op.Question, op.QuestionQuery{InTeam: op.InTeam{Team: team}, Question: id})
}

// Answer answers a question, by its id; see [api.Bridge].
func (c relays) Answer(ctx context.Context, id string, p api.Permit) (api.Asked, error) {
	return call(ctx, c.conn, &op.AnswerQuestion, op.AnswerRequest{Question: id, With: op.With[api.Permit]{Body: p}})
}

// Move requests the move of a member's session; see [api.Bridge].
func (c relays) Move(ctx context.Context, team, member string, n api.NewPlace) (api.Placed, error) {
	return call(ctx, c.conn, &op.Move, op.MoveRequest{OfMember: op.Of(team, member), With: op.With[api.NewPlace]{Body: n}})
}

// Deliveries returns the deliveries to agents; see [api.Bridge].
func (c relays) Deliveries(ctx context.Context, q api.DeliveryQuery) ([]api.Delivery, error) {
	return call(ctx, c.conn, &op.Deliveries, q)
}

// Envelopes returns the events of a relay's agent, oldest first. It uses only the numbers in q: After, Before
// and Limit. See also [Client.EnvelopeEvents].
func (c relays) Envelopes(ctx context.Context, id string, q MessageQuery) (api.Envelopes, error) {
	return call(ctx, c.conn, &op.Envelopes, op.EnvelopesQuery{OfRelay: op.OfRelay{Relay: id}, After: q.After, Forward: q.Forward, Before: q.Before, Limit: q.Limit})
}

// RetryDelivery delivers a failed message again; see [api.Bridge].
func (c relays) RetryDelivery(ctx context.Context, id string) (api.Delivery, error) {
	return call(ctx, c.conn, &op.RetryDelivery, op.OfDelivery{Delivery: id})
}

// DropDelivery drops a waiting or failed delivery: the agent never gets it.
func (c relays) DropDelivery(ctx context.Context, id string) (api.Delivery, error) {
	return call(ctx, c.conn, &op.DropDelivery, op.OfDelivery{Delivery: id})
}

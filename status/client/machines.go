package client

import (
	"context"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

// machines has the operations on links with other machines.
type machines struct{ *conn }

// Links returns the links of the service's machine with others, and their states.
func (c machines) Links(ctx context.Context) (api.Links, error) {
	return call(ctx, c.conn, &op.Links, op.None{})
}

// SetLink sets the name, the hub or the keys of the service's machine; see [api.Bridge].
func (c machines) SetLink(ctx context.Context, n api.NewLink) (api.Links, error) {
	return call(ctx, c.conn, &op.SetLink, op.With[api.NewLink]{Body: n})
}

// AddMachine makes a link with a machine; see [api.Bridge].
func (c machines) AddMachine(ctx context.Context, n api.NewMachine) (api.Machine, error) {
	return call(ctx, c.conn, &op.AddMachine, op.With[api.NewMachine]{Body: n})
}

// RemoveMachine ends the link with a machine; see [api.Bridge].
func (c machines) RemoveMachine(ctx context.Context, machine string) (api.Machine, error) {
	return call(ctx, c.conn, &op.RemoveMachine, op.OfMachine{Machine: machine})
}

// ShareTeam allows a machine to write to a team, or withdraws that.
func (c machines) ShareTeam(ctx context.Context, machine string, n api.NewShare) (api.Machine, error) {
	return call(ctx, c.conn, &op.ShareTeam, op.ShareTeamRequest{OfMachine: op.OfMachine{Machine: machine}, With: op.With[api.NewShare]{Body: n}})
}

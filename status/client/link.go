package client

import (
	"context"
	"net/http"

	"teambridge/status/api"
)

// Links returns the links of the machine of the service with others, and how they are.
func (c *Client) Links(ctx context.Context) (links api.Links, err error) {
	return links, c.get(ctx, "/v1/links", nil, &links)
}

// SetLink says what the machine of the service is for others; see [api.Bridge].
func (c *Client) SetLink(ctx context.Context, n api.NewLink) (links api.Links, err error) {
	return links, c.do(ctx, http.MethodPut, "/v1/links", nil, n, &links)
}

// AddMachine makes a link with a machine; see [api.Bridge].
func (c *Client) AddMachine(ctx context.Context, n api.NewMachine) (m api.Machine, err error) {
	return m, c.do(ctx, http.MethodPost, "/v1/machines", nil, n, &m)
}

// RemoveMachine ends the link with a machine; see [api.Bridge].
func (c *Client) RemoveMachine(ctx context.Context, machine string) (m api.Machine, err error) {
	return m, c.do(ctx, http.MethodDelete, machinePath(machine), nil, nil, &m)
}

// ShareTeam lets a machine write to a team, or lets it no longer.
func (c *Client) ShareTeam(ctx context.Context, machine string, n api.NewShare) (m api.Machine, err error) {
	return m, c.do(ctx, http.MethodPost, machinePath(machine)+"/teams", nil, n, &m)
}

func machinePath(name string) string { return "/v1/machines/" + segment(name) }

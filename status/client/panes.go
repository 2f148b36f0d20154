package client

import (
	"context"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

// panes has the operations on registered panes.
type panes struct{ *conn }

// Panes returns the registered tmux panes, sorted by name.
func (c panes) Panes(ctx context.Context) ([]api.Pane, error) {
	return call(ctx, c.conn, &op.Panes, op.None{})
}

// Pane examines a registered pane now. It sends nothing to the pane.
func (c panes) Pane(ctx context.Context, name string) (api.Pane, error) {
	return call(ctx, c.conn, &op.Pane, op.OfPane{Pane: name})
}

// TestPane returns what would happen to a message to a pane now; see [api.Bridge].
func (c panes) TestPane(ctx context.Context, name, policy string) (api.PaneTest, error) {
	return call(ctx, c.conn, &op.TestPane, op.TestPaneQuery{OfPane: op.OfPane{Pane: name}, Policy: policy})
}

// AddPane registers a tmux pane under a name; see [api.Bridge].
func (c panes) AddPane(ctx context.Context, n api.NewPane) (p api.Pane, err error) {
	p, p.Added, err = added(ctx, c.conn, &op.AddPane, op.With[api.NewPane]{Body: n})
	return p, err
}

// RemovePane removes a registered pane; see [api.Bridge].
func (c panes) RemovePane(ctx context.Context, name string) (api.Pane, error) {
	return call(ctx, c.conn, &op.RemovePane, op.OfPane{Pane: name})
}

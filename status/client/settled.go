package client

import (
	"context"
	"errors"
	"io"

	"teambridge/status/api"
)

// Settled waits until the receipt of a message that was sent through the service is
// consumed, lost or unknown. member and id are those that [Client.Send] returned. The
// errors are those of [Client.Receipt] and [Client.Stream], and [api.CodeGone] if the team
// has ended. Settled does not connect again.
func (c *Client) Settled(ctx context.Context, team, member, id string) (api.Receipt, error) {
	return c.await(ctx, team, member, id, func(r api.Receipt) bool { return r.State != api.Verified })
}

// Seen waits as [Client.Settled] does, until the agent's model was given the message, or it
// is lost or unknown.
func (c *Client) Seen(ctx context.Context, team, member, id string) (api.Receipt, error) {
	return c.await(ctx, team, member, id, func(r api.Receipt) bool {
		return r.SeenAt != nil || r.State == api.Lost || r.State == api.Unknown
	})
}

// await waits until settled is true for the receipt of a message.
func (c *Client) await(ctx context.Context, team, member, id string, settled func(api.Receipt) bool) (api.Receipt, error) {
	requested := false
	for e, err := range c.Stream(ctx, team, Now) {
		if err != nil {
			if err == io.EOF {
				err = &UnreachableError{Where: c.where, Sent: true, Err: errors.New("it has ended")}
			}
			return api.Receipt{}, err
		}
		if !requested {
			// The stream has started, so no change after this request is missed.
			requested = true
			if r, err := c.Receipt(ctx, team, member, id); err != nil || settled(r) {
				return r, err
			}
		}
		switch r := e.Receipt; {
		case r != nil && r.Team == team && r.Member == member && r.ID == id && settled(*r):
			return *r, nil
		case e.Snapshot != nil && len(e.Snapshot.Teams) == 0:
			return api.Receipt{}, api.Decide(api.CodeGone, "nobody can know what happened to the message", "the team %s has ended", team)
		case e.Reset != nil:
			requested = false // the deleted events may have changed the receipt
		}
	}
	return api.Receipt{}, context.Cause(ctx)
}

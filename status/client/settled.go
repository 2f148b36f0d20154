package client

import (
	"context"
	"errors"
	"io"

	"teambridge/status/api"
)

// Settled waits until it is known what became of a message that was sent through
// the service: its receipt is consumed, lost or unknown then. member and id are those
// of the answer to the message.
//
// The errors are those of [Client.Receipt] and [Client.Stream]; it does not
// connect again. A problem with api.CodeGone says that the team has ended: then
// nothing tells what became of the message.
func (c *Client) Settled(ctx context.Context, team, member, id string) (api.Receipt, error) {
	settled := func(r api.Receipt) bool { return r.State != api.Verified }
	asked := false
	for e, err := range c.Stream(ctx, team, Now) {
		if err != nil {
			if err == io.EOF {
				err = &UnreachableError{Where: c.where, Sent: true, Err: errors.New("it has ended")}
			}
			return api.Receipt{}, err
		}
		if !asked {
			// The stream tells what comes after: nothing falls in between.
			asked = true
			if r, err := c.Receipt(ctx, team, member, id); err != nil || settled(r) {
				return r, err
			}
		}
		switch r := e.Receipt; {
		case r != nil && r.Team == team && r.Member == member && r.ID == id && settled(*r):
			return *r, nil
		case e.Snapshot != nil && len(e.Snapshot.Teams) == 0:
			return api.Receipt{}, &api.Problem{
				Type: "urn:teambridge:" + string(api.CodeGone), Title: api.CodeGone.Title(), Status: api.CodeGone.HTTP(), Code: api.CodeGone,
				Detail: "the team " + team + " has ended", Hint: "nothing tells what became of the message",
			}
		case e.Reset != nil:
			asked = false // the receipt may have changed in what was forgotten
		}
	}
	return api.Receipt{}, context.Cause(ctx)
}

package client

import (
	"context"
	"time"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

// messages has the operations that send and read messages.
type messages struct{ *conn }

// Send sends a message to a member; see [api.Bridge].
func (c messages) Send(ctx context.Context, team, member, id string, m api.NewMessage) (api.Sent, error) {
	return call(ctx, c.conn, &op.Send, op.SendRequest{OfMember: op.Of(team, member), Key: op.Key{ID: id}, With: op.With[api.NewMessage]{Body: m}})
}

// SendPayloads sends payloads of the session protocol, one per line, as prompts to a member that the service relays
// to: all or, on an error, none. Those with an id or localKey are sent once, even if they are sent again.
func (c messages) SendPayloads(ctx context.Context, team, member string, lines []byte) (api.SentPayloads, error) {
	return call(ctx, c.conn, &op.SendPayloads, op.SendPayloadsRequest{OfMember: op.Of(team, member), Lines: lines})
}

// Broadcast sends a message to every agent of a team; see [api.Bridge].
func (c messages) Broadcast(ctx context.Context, team, id string, m api.NewBroadcast) ([]api.Sent, error) {
	return call(ctx, c.conn, &op.Broadcast, op.BroadcastRequest{OfTeam: op.OfTeam{Team: team}, Key: op.Key{ID: id}, With: op.With[api.NewBroadcast]{Body: m}})
}

// Await waits until a message reaches a state; see [api.Bridge].
func (c messages) Await(ctx context.Context, s api.Sent, until string, timeout time.Duration) (api.Sent, error) {
	now, err := call(ctx, c.conn, &op.Await, op.AwaitQuery{OfTeam: op.OfTeam{Team: s.Team}, Member: s.Member, ID: s.ID, Delivery: s.Delivery, Until: until, Timeout: timeout})
	if err != nil {
		return s, err
	}
	if f := now.Error; f != nil {
		err = api.Decide(f.Code, f.Hint, "%s", f.Message)
	}
	s.State, s.Reason = now.State, now.Reason
	s.WaitedMs += now.WaitedMs
	return s, err
}

// Receipt returns what happened to a message that was sent to member under id.
func (c messages) Receipt(ctx context.Context, team, member, id string) (api.Receipt, error) {
	return call(ctx, c.conn, &op.Receipt, op.ReceiptQuery{OfTeam: op.OfTeam{Team: team}, Member: member, ID: id})
}

// Ask sends a message to a member, and waits for the answer; see [api.Bridge].
func (c messages) Ask(ctx context.Context, team, member, id string, q api.NewQuestion) (api.Answered, error) {
	return call(ctx, c.conn, &op.Ask, op.AskRequest{OfMember: op.Of(team, member), Key: op.Key{ID: id}, With: op.With[api.NewQuestion]{Body: q}})
}

// Reply answers a message; see [api.Bridge].
func (c messages) Reply(ctx context.Context, id string, r api.NewReply) (api.Replied, error) {
	return call(ctx, c.conn, &op.Reply, op.ReplyRequest{Key: op.Key{ID: id}, With: op.With[api.NewReply]{Body: r}})
}

// Wait waits until something happens in a team; see [api.Bridge].
func (c messages) Wait(ctx context.Context, team string, o api.Occasion) (api.Happened, error) {
	return call(ctx, c.conn, &op.Wait, op.WaitQuery{OfTeam: op.OfTeam{Team: team}, Occasion: o})
}

// Read returns messages that are in inboxes; see [api.Bridge].
func (c messages) Read(ctx context.Context, team string, q api.Reading) (api.Rows, error) {
	return call(ctx, c.conn, &op.Read, op.ReadQuery{OfTeam: op.OfTeam{Team: team}, Reading: q})
}

// MarkRead marks messages in an inbox of the person as read.
func (c messages) MarkRead(ctx context.Context, team string, m api.MarkRead) (api.Marked, error) {
	return call(ctx, c.conn, &op.MarkRead, op.MarkReadRequest{OfTeam: op.OfTeam{Team: team}, With: op.With[api.MarkRead]{Body: m}})
}

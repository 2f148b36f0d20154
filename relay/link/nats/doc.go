// Package nats is a [link.Wire] on NATS JetStream.
//
// Machines are plain clients of one hub, a NATS server of version 2.14 or later. The hub keeps frames in one
// stream, under tb.m.TO.FROM, with a consumer for each receiving machine. Presences are sent under
// tb.p.TO.FROM, and not stored.
//
// The hub's permissions hold each machine to its own name and queue (see [Permissions]). The stream is in
// another account, because a client can make the server send answers to any subject of its own account (see
// [Accounts]). Neither proves to a peer who sent a frame. So each frame and text is sealed with the keys of
// both machines, together with both names and the kind of content; anything that cannot be opened is dropped.
//
// A machine has one frame in flight, and returns to it after a reconnect. So no frame overtakes another, not
// even one that was still in transit on a dead connection.
package nats

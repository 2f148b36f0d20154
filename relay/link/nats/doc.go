// Package nats is a [link.Wire] on NATS JetStream.
//
// Machines are plain clients of one hub, a NATS server of version 2.14 or later. Frames wait there in one
// stream, under tb.m.TO.FROM, and each machine has a consumer for its own. Presences are sent under
// tb.p.TO.FROM, and not stored.
//
// The hub's permissions hold each machine to its own name and queue (see [Permissions]), and the stream is in
// another account, out of reach of answers that a client makes the server send elsewhere (see [Accounts]).
// None of this proves to a peer who sent a frame. So everything is sealed with the keys of both machines,
// together with both names and the kind of content; anything that cannot be opened is dropped.
//
// A machine has one frame in flight, and returns to it after a reconnect. So no frame overtakes another,
// whatever was still on its way over a dead connection.
package nats

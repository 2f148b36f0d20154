// Package nats is a [link.Wire] on NATS JetStream.
//
// Machines are plain clients of one hub, a NATS server of version 2.14 or later. Frames wait
// there in one stream, under tb.m.TO.FROM, and each machine has a consumer that takes what is
// for it. What machines tell each other goes under tb.p.TO.FROM, and is not stored.
//
// The hub's permissions hold each machine to its own name and queue (see [Permissions]), and the
// stream is in another account, so that no answer that a client has the server send somewhere
// else gets there (see [Accounts]). None of this proves to a peer who sent a frame. So all that
// passes is sealed with the keys of both machines, together with both names and what it is; what
// cannot be opened is thrown away.
//
// A machine has one frame in flight, and goes back to it when it connects again. So nothing
// overtakes, whatever was on its way to a connection that was dead.
package nats

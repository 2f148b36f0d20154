// Package nats is a [link.Wire] on NATS JetStream.
//
// Machines are plain clients of one hub, a NATS server of version 2.14 or later. Frames wait
// there in one stream, under tb.m.TO.FROM, and each machine has a consumer that takes what is
// for it. What machines tell each other goes under tb.p.TO.FROM, and is not stored.
//
// The hub's permissions hold each machine to its own name and queue (see [Permissions]). But
// they do not prove who sent a frame: a client can have the server put an answer of its own
// under any subject, by a reply subject. So all that passes is sealed with the keys of both
// machines, together with both names and what it is; the rest cannot be opened, and is thrown
// away.
//
// A machine has one frame in flight, and goes back to it when it connects again. So nothing
// overtakes, whatever was on its way to a connection that was dead.
package nats

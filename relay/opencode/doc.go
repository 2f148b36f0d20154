// Package opencode runs agents of OpenCode: one session of an `opencode serve`, which is
// started for it or runs already. It uses the durable API (/api/session…), where the same
// prompt under one id is run once.
//
// The ids of the relay are UUIDs. OpenCode's own are made of them; see [SessionID] and
// [MessageID]. The server keeps them.
//
// OpenCode by itself allows everything. The configuration that the server is given, made of the mode and the profile next to
// links to what the user has, makes it ask.
//
// No event says that a turn has ended: it has when its message was taken up and the session is not active any more. A
// server outlives a relay that is killed. Its URL and password are in a file of the state directory, so that the next
// relay can ask it whether it still works, and end it. A turn without an end was cut.
package opencode

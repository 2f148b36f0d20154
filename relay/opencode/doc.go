// Package opencode runs agents of OpenCode: one session of an `opencode serve`, which is
// started for it or runs already. It uses the durable API (/api/session…), where the same
// prompt under one id is run once.
//
// The relay's ids are UUIDs. OpenCode's ids are derived from them; see [SessionID] and [MessageID]. The
// server stores them.
//
// OpenCode by itself allows everything. Its server gets a configuration that makes it ask: the mode and the
// profile, with links to the user's own files.
//
// No event reports the end of a turn: it has ended when its message was promoted and the session is no longer
// active. A server outlives a killed relay. Its URL and password are in a file of the state directory, so
// that the next relay can check whether it is still working, and end it. A turn without an end was cut.
package opencode

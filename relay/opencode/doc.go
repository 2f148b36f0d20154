// Package opencode runs agents of OpenCode. An agent is one session of an `opencode serve`, either its own or
// one that was already running. The package uses the durable API (/api/session…), where a prompt that is
// repeated under one id runs once.
//
// The relay's ids are UUIDs. OpenCode stores ids that are derived from them; see [SessionID] and [MessageID].
//
// OpenCode's default allows everything. Our server gets a configuration that makes it ask. It holds the mode
// and the profile, and links to the user's own files.
//
// No event reports the end of a turn. A turn has ended when its message was promoted and the session is no
// longer active. A server outlives a killed relay. Its URL and password are in a file of the state directory,
// so the next relay can check whether it is still working, and end it. A turn without an end was cut.
package opencode

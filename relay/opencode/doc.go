// Package opencode runs agents of OpenCode: one session of an `opencode serve`, which is
// started for it or runs already. It uses the durable API (/api/session…), where the same
// prompt under one id is run once.
//
// The ids of the relay are UUIDs. OpenCode's own are made of them; see [SessionID] and
// [MessageID].
package opencode

package view_test

import (
	"testing"

	"teambridge/status/api"
	"teambridge/status/view"
)

// A status has the way to the agent and its promise; that of an ended agent has neither.
func TestReached(t *testing.T) {
	t.Parallel()
	const once = "each message once, "
	for name, test := range map[string]struct {
		s                      api.Status
		session, way, promised string
	}{
		"a member":                {api.Status{Team: "t"}, "", api.WayInbox, "each message read back from the inbox, and known once it is received"},
		"a member elsewhere":      {api.Status{Team: "t@box", Basis: api.BasisMachine}, "", api.WayMachine, "each message kept here until the other machine has it, and delivered there once"},
		"a pane":                  {api.Status{Team: api.TeamPanes}, "", api.WayPane, "each message typed once or not at all, or reported as unknown"},
		"a session":               {api.Status{Team: api.TeamSessions}, api.WaySession, api.WaySession, once + "proven by the session's transcript"},
		"a session with the hook": {api.Status{Team: api.TeamSessions}, api.WayHook, api.WayHook, once + "proven by the session's transcript"},
		"a session of Codex":      {api.Status{Team: api.TeamSessions, Program: api.ProgramCodex}, api.WayCodex, api.WayCodex, once + "as a tool's output, proven by the session's transcript"},
		"a session of Qwen Code": {api.Status{Team: api.TeamSessions, Program: api.ProgramQwen}, api.WaySession, api.WaySession,
			once + "proven by the session's transcript; Qwen Code may ask its person first"},
		"a session that takes nothing": {api.Status{Team: api.TeamSessions}, "", "", "cannot be written to; teambridge doctor says why"},
		"one that has ended":           {api.Status{Team: "t", Word: api.WordEnded}, "", "", ""},
	} {
		if view.Reached(&test.s, test.session); test.s.Way != test.way || test.s.Promise != test.promised {
			t.Errorf("%s is reached by %q: %q, want %q: %q", name, test.s.Way, test.s.Promise, test.way, test.promised)
		}
	}
}

package view

import (
	"slices"
	"strings"

	"teambridge/relay/pane"
	"teambridge/status/api"
)

// Way returns how a message reaches a session, such as [api.WaySession], or "" if nothing can be written to it.
func Way(by pane.Reach) string {
	switch by {
	case pane.BySocket:
		return api.WaySession
	case pane.ByHook:
		return api.WayHook
	case pane.ByCodex:
		return api.WayCodex
	}
	return ""
}

// Reached adds how a message reaches the agent, unless it has ended. session is the way to a session in no team.
func Reached(s *api.Status, session string) {
	switch {
	case s.Word == api.WordEnded:
		return
	case s.Team == api.TeamSessions:
		s.Way = session
	case s.Team == api.TeamPanes:
		s.Way = api.WayPane
	case s.Basis == api.BasisMachine:
		s.Way = api.WayMachine
	default:
		s.Way = api.WayInbox
	}
	s.Promise = Promise(s.Way, s.Program)
}

// Promise describes the guarantee of a way to an agent, such as [api.WayInbox], or returns "" if there is none.
// program is the agent's program, as in [api.Session].
func Promise(way, program string) string {
	const proven = "proven by the session's transcript"
	switch {
	case way == api.WaySession && program == api.ProgramQwen:
		return "each message once, " + proven + "; Qwen Code may ask its person first"
	case way == api.WaySession, way == api.WayHook:
		return "each message once, " + proven
	case way == api.WayCodex:
		return "each message once, as a tool's output, " + proven
	case way == api.WayInbox:
		return "each message read back from the inbox, and known once it is received"
	case way == api.WayPane:
		return "each message typed once or not at all, or reported as unknown"
	case way == api.WayMachine:
		return "each message kept here until the other machine has it, and delivered there once"
	}
	return "cannot be written to; teambridge doctor says why"
}

// Does describes what an agent is doing: a word, and the reason if it concerns the person.
func Does(s api.Status) string {
	switch {
	case s.Section == api.SectionStuck && s.SectionKind != "":
		return "stuck: " + s.SectionWhy
	case s.Section == api.SectionNeedsYou && s.SectionKind != "" && s.Word != api.WordWaiting:
		return "needs you: " + s.SectionWhy
	case s.Why != "" && (s.Word == api.WordWaiting || s.Word == api.WordBlocked):
		return s.Word + ": " + WaitsFor(s)
	}
	return s.Word
}

// WaitsFor describes what an agent waits for, in as much detail as is known.
func WaitsFor(s api.Status) string {
	if what, ok := strings.CutPrefix(s.SectionWhy, "waits for you: "); ok && s.SectionKind == api.WaitsTerminal {
		return what
	}
	return s.Why
}

// Rank returns the index of a section in [api.Sections]. Unknown sections rank as [api.SectionIdle].
func Rank(section string) int {
	if at := slices.Index(api.Sections, section); at >= 0 {
		return at
	}
	return slices.Index(api.Sections, api.SectionIdle)
}

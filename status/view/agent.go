package view

import (
	"slices"
	"strings"

	"teambridge/status/api"
)

// Promise describes the guarantee of a way to an agent, such as [api.WayInbox], or "" for none.
func Promise(way string) string {
	switch way {
	case api.WaySession, api.WayHook, api.WayCodex:
		return "each message once, proven by the session's transcript"
	case api.WayInbox:
		return "each message verified in the inbox, and known once it is taken"
	case api.WayPane:
		return "each message typed once or not at all, or reported as unknown"
	case api.WayMachine:
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

// WaitsFor returns what an agent waits for, in as much detail as is known.
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

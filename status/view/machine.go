package view

import (
	"cmp"
	"slices"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/link"
	"teambridge/status/api"
	"teambridge/teams"
)

// Machine converts another machine.
func Machine(m ledger.Machine) api.Machine {
	p, _ := link.PresenceOf(m)
	shown := api.Machine{
		Machine: m.Name, Card: m.Card, State: api.MachineNew, Version: p.Program, Queued: m.Queued, Stored: m.Stored,
		Teams: append([]string{}, m.Teams...), Offers: []string{},
	}
	if !m.Heard.IsZero() {
		shown.Heard, shown.State = &m.Heard, api.MachineHere
		if away(m) {
			shown.State = api.MachineAway
		}
	}
	if !m.Oldest.IsZero() {
		shown.Oldest = &m.Oldest
	}
	for _, t := range p.Teams {
		shown.Offers = append(shown.Offers, t.Team+"@"+m.Name)
	}
	return shown
}

func away(m ledger.Machine) bool { return time.Since(m.Heard) > link.Away }

// Whereabouts returns since when a machine is away, or why it takes no messages; "" if it can be reached.
func Whereabouts(m ledger.Machine) string {
	switch {
	case m.Heard.IsZero():
		return m.Name + " has not reported its state yet"
	case away(m):
		return m.Name + " is away since " + Clock(m.Heard)
	}
	if p, ok := link.PresenceOf(m); ok && p.Version < link.Version {
		return m.Name + " has an earlier teambridge, and takes messages once it is upgraded"
	}
	return ""
}

// Offer returns a machine's last report on a team. found is false if it has reported none.
func Offer(m ledger.Machine, team string) (t link.Team, found bool) {
	p, _ := link.PresenceOf(m)
	i := slices.IndexFunc(p.Teams, func(t link.Team) bool { return t.Team == team })
	if i < 0 {
		return link.Team{Team: team}, false
	}
	return p.Teams[i], true
}

// MachineTeam converts a team on another machine. It is named TEAM@MACHINE.
func MachineTeam(m ledger.Machine, offer link.Team) api.Team {
	return api.Team{
		Team: offer.Team + "@" + m.Name, CreatedAt: time.UnixMilli(ledger.MachineTeamCreated).UTC(), LeadState: teams.Unknown.String(), Members: len(offer.Members), Machine: m.Name,
	}
}

// MachineMembers converts the members of a team on another machine.
func MachineMembers(m ledger.Machine, offer link.Team) []api.Member {
	list := make([]api.Member, 0, len(offer.Members))
	for _, one := range offer.Members {
		role := api.RoleAgent
		if one.Lead {
			role = api.RoleLead
		}
		list = append(list, api.Member{Team: offer.Team + "@" + m.Name, Member: one.Member, Role: role, Backend: "machine"})
	}
	return list
}

// MachineStatus returns the statuses of the members of a team on another machine, by its last report. silent is the
// result of [Whereabouts] for the machine.
func MachineStatus(m ledger.Machine, offer link.Team, silent string) []api.Status {
	list := make([]api.Status, 0, len(offer.Members))
	for _, one := range offer.Members {
		s := api.Status{
			Team: offer.Team + "@" + m.Name, Member: one.Member, Word: cmp.Or(one.Word, api.WordUnknown), Why: one.Why, WordSince: one.Since, Since: one.Since, Heard: m.Heard.UTC(),
			Basis: api.BasisMachine, State: api.StateIdle, Detail: api.DetailWaiting,
		}
		if what := WaitsElsewhere(one.Waits); what != "" && silent == "" {
			s.Overview = api.Overview{SectionKind: one.Waits, SectionWhy: what, SectionSince: new(one.WaitsSince)}
		}
		if silent != "" {
			s.Word, s.Why = api.WordUnknown, silent
		}
		switch s.Word {
		case api.WordWorking:
			s.State, s.Detail = api.StateActive, api.DetailWorking
		case api.WordEnded:
			s.State, s.Detail = api.StateTerminated, api.DetailShutDown
		}
		list = append(list, s)
	}
	return list
}

// WaitsElsewhere describes a kind of [api.Attention] about a member on another machine. It is empty for kinds that
// concern only the person at that machine, such as an unread message.
func WaitsElsewhere(kind string) string {
	return map[string]string{
		api.WaitsPermission: "asks whether it may use a tool", api.WaitsPlan: "asks for approval of its plan", api.WaitsQuestion: "asks a question", api.WaitsLead: "asks its lead",
		api.WaitsTerminal: "waits at its terminal", api.WaitsHeld: "messages to it are held back",
		api.WaitsStopped: "nothing delivers to it", api.WaitsLost: "a message to it was lost", api.WaitsUnknown: "what became of a message to it is unknown",
		api.WaitsFailed: "a message to it failed", api.WaitsSilent: "nothing new has come from it", api.WaitsLoop: "it and another agent only answer each other",
	}[kind]
}

package links

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/link"
	"teambridge/status/api"
	"teambridge/status/local"
	"teambridge/teams"
)

// Split splits an address: MEMBER@TEAM or, if there is a link with the machine, MEMBER@TEAM@MACHINE. The team
// of the latter is TEAM@MACHINE.
func (l *Machines) Split(ctx context.Context, address string) (member, team string, err error) {
	member, team = split(address, func(name string) bool {
		var list []ledger.Machine
		list, err = l.Linked(ctx)
		return slices.ContainsFunc(list, func(m ledger.Machine) bool { return m.Name == name })
	})
	return member, team, err
}

// split splits an address as [teams.Split] does. If the last part is the name of a machine, the team is TEAM@MACHINE.
func split(address string, machine func(name string) bool) (member, team string) {
	rest, last := teams.Split(address)
	if name, team := teams.Split(rest); team != "" && machine(last) {
		return name, team + "@" + last
	}
	return rest, last
}

// saidBy reports whether a team on another machine has written to the person.
func (l *Machines) saidBy(ctx context.Context, team string) (bool, error) {
	if lg, err := l.Ledger(ctx); err != nil || lg == nil {
		return false, err
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return false, err
	}
	rows, err := panes.Incoming.Said(ctx, team)
	return len(rows) > 0, err
}

// Offered returns the teams on other machines that have a given name, or that have all members, as of their
// last report.
func (l *Machines) Offered(ctx context.Context, team string, members []string) (all []string, err error) {
	list, err := l.Linked(ctx)
	for _, m := range list {
		p, _ := link.PresenceOf(m)
		for _, t := range p.Teams {
			has := team == t.Team
			if team == "" {
				has = len(members) > 0 && !slices.ContainsFunc(members, func(name string) bool { return There(t, name) == "" })
			}
			if has {
				all = append(all, t.Team+"@"+m.Name)
			}
		}
	}
	return all, err
}

// There returns the member that a name means in a team on another machine: the one with that name, or the lead
// for "lead". It is "" if there is none.
func There(t link.Team, name string) string {
	for _, m := range t.Members {
		if m.Member == name || m.Lead && strings.EqualFold(name, "lead") {
			return m.Member
		}
	}
	return ""
}

// MachineOf returns the machine of a team TEAM@MACHINE.
func (l *Machines) MachineOf(ctx context.Context, name string) (ledger.Machine, error) {
	_, machine, _ := local.Elsewhere(name)
	m, err := l.Machine(ctx, machine)
	if errors.Is(err, api.CodeNotFound) { // messages from there to the person stay readable after the end of the link
		if said, serr := l.saidBy(ctx, name); serr != nil || said {
			m, err = ledger.Machine{Name: machine}, serr
		}
	}
	return m, err
}

// NoMember is the error for a member that a team on another machine does not have.
func NoMember(team, name string) error {
	return api.Decide(api.CodeNotFound, "list them with: teambridge members --team "+team, "%s has no member %q", team, name)
}

// IDs is the namespace of ids for messages to and from other machines.
var IDs = uuid.MustParse("0d9c7a0e-6a1c-5f0b-8a41-6d2f0a7f2f11")

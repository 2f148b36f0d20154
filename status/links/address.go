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

// Split takes an address apart: MEMBER@TEAM or, if there is a link with the machine,
// MEMBER@TEAM@MACHINE, whose team is TEAM@MACHINE.
func (l *Machines) Split(ctx context.Context, address string) (member, team string, err error) {
	member, team = split(address, func(name string) bool {
		var list []ledger.Machine
		list, err = l.Linked(ctx)
		return slices.ContainsFunc(list, func(m ledger.Machine) bool { return m.Name == name })
	})
	return member, team, err
}

// split takes an address apart as [teams.Split] does. If what follows its last "@" is a machine, the team is TEAM@MACHINE.
func split(address string, machine func(name string) bool) (member, team string) {
	rest, last := teams.Split(address)
	if name, team := teams.Split(rest); team != "" && machine(last) {
		return name, team + "@" + last
	}
	return rest, last
}

// saidBy reports whether a team on another machine wrote something to the person.
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

// Offered returns the teams on other machines that have a team of that name, or all members, as they said last.
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

// There returns the name of a member of a team on another machine, or "".
func There(t link.Team, name string) string {
	for _, m := range t.Members {
		if m.Member == name || m.Lead && strings.EqualFold(name, "lead") {
			return m.Member
		}
	}
	return ""
}

// MachineOf returns the machine of a team on another one.
func (l *Machines) MachineOf(ctx context.Context, name string) (ledger.Machine, error) {
	_, machine, _ := local.Elsewhere(name)
	m, err := l.Machine(ctx, machine)
	if errors.Is(err, api.CodeNotFound) { // what it wrote to the person can be read after the end of its link
		if said, serr := l.saidBy(ctx, name); serr != nil || said {
			m, err = ledger.Machine{Name: machine}, serr
		}
	}
	return m, err
}

// NoMember says that a team on another machine has no member of that name.
func NoMember(team, name string) error {
	return api.Decide(api.CodeNotFound, "list them with: teambridge members --team "+team, "%s has no member %q", team, name)
}

// IDs makes ids of messages to and from other machines.
var IDs = uuid.MustParse("0d9c7a0e-6a1c-5f0b-8a41-6d2f0a7f2f11")

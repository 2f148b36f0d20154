package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"teambridge/relay/shell"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/view"
)

// mostAgents limits the number of agents in the overview.
const mostAgents = 20

// overview prints the agents on this machine and how to write to one. It is the output of teambridge without
// arguments.
func overview(ctx context.Context, a *app) error {
	machine := "this machine"
	if a.there != nil {
		machine = a.there.name
		if err := a.connect(ctx); err != nil {
			return err
		}
	} else if _, err := a.root(); err != nil {
		if a.json {
			return a.printJSON([]api.Agent{})
		}
		return a.printf("%s", noAgents("No agent can be found: "+escape(view.Describe(err), false)+".", "Start claude, which makes it, codex or qwen, and"))
	}
	all, err := a.bridge(ctx).Agents(ctx)
	if err != nil {
		return err
	}
	for _, t := range all.Unknown {
		a.warn("the agents of %s are unknown: %s", t.Team, t.Why)
	}
	if a.json {
		return a.printJSON(all.Agents)
	}
	list := all.Agents
	if named, err := a.namedTeam(""); err != nil {
		return err
	} else if named != "" { // without a team, a name would be looked up in that team
		for i := range list {
			list[i].Name = list[i].Member + "@" + list[i].Team
		}
	}
	a.warnServiceError(ctx, "")
	a.linksNote(ctx)
	if len(list) == 0 {
		return a.printf("%s", noAgents("No agent runs on "+machine+".", "Start claude, codex or qwen, and"))
	}
	return a.print([]byte(overviewText(list, a.width())))
}

// noAgents returns the advice if there are no agents.
func noAgents(why, start string) string {
	return why + "\n" + start + ` run teambridge again. "teambridge demo" shows it on simulated agents.
"teambridge doctor" finds problems that keep messages from arriving, "teambridge --help" lists the commands.
`
}

// overviewText returns a table of agents, the promises of their ways, and commands to try.
func overviewText(list []api.Agent, columns int) string {
	rows := [][]string{{"NAME", "KIND", "STATE", "REACH", "DIRECTORY"}}
	for _, one := range list[:min(len(list), mostAgents)] {
		rows = append(rows, []string{one.Name, one.Kind, one.Does, dash(one.Way), dash(one.Cwd)})
	}
	if columns > 0 && columns < 60 {
		for i, row := range rows {
			rows[i] = []string{row[0], row[2]} // what it is called, and what it does
		}
	}
	var b strings.Builder
	b.WriteString(plain.Table(rows, columns, 1))
	if more := len(list) - mostAgents; more > 0 {
		fmt.Fprintf(&b, "and %d more: teambridge sessions, teambridge teams\n", more)
	}
	b.WriteString("\n")
	var promised promises
	for _, one := range list {
		promised.add(one.Overview, one.Kind)
	}
	b.WriteString(plain.Table(promised.rows(), columns, 3))
	b.WriteString("\n")
	if i := slices.IndexFunc(list, canBeTyped); i >= 0 {
		name := shell.Quote(list[i].Name)
		fmt.Fprintf(&b, "    teambridge send %s \"please review task 12\"\n    teambridge ask %s \"is the build green?\"\n", name, name)
	}
	b.WriteString("    teambridge inbox     # what needs you\n    teambridge --help    # all commands\n")
	return b.String()
}

// promises says what the ways to agents can promise, each once.
type promises []struct{ promise, ways string }

// add adds what can be promised of an agent of a kind, such as "codex session".
func (p *promises) add(one api.Overview, kind string) {
	way := dash(one.Way)
	if way == api.WaySession && one.Promise != view.Promise(way, "") {
		way = kind
	}
	i := slices.IndexFunc(*p, func(o struct{ promise, ways string }) bool { return o.promise == one.Promise })
	switch {
	case one.Promise == "":
	case i < 0:
		*p = append(*p, struct{ promise, ways string }{one.Promise, way})
	case !slices.Contains(strings.Split((*p)[i].ways, ", "), way):
		(*p)[i].ways += ", " + way
	}
}

// rows returns a line for each promise, to be folded as a table is.
func (p promises) rows() (rows [][]string) {
	for _, one := range p {
		rows = append(rows, []string{one.ways + ": " + one.promise})
	}
	return rows
}

// canBeTyped reports whether a person can use the displayed name of an agent as an address.
func canBeTyped(one api.Agent) bool {
	return one.Way != "" && escape(one.Name, false) == one.Name && !strings.HasPrefix(one.Name, "-")
}

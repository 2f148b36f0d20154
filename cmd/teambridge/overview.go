package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"teambridge/relay/pane"
	"teambridge/relay/shell"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/view"
	"teambridge/teams"
)

// mostAgents is how many agents the overview shows.
const mostAgents = 20

// listedAgent is an agent of the overview.
type listedAgent struct {
	name string // by which send and ask reach it now
	kind string
	word string // what it does
	rank int    // of its section in [api.Sections]
	way  string // [api.WayInbox] and its like; empty: none
	dir  string
}

// promises say what each way to an agent can promise.
var promises = []struct {
	ways []string
	text string
}{
	{[]string{api.WaySession, api.WayHook, api.WayCodex}, "each message once, proven by the session's transcript"},
	{[]string{api.WayInbox}, "each message verified in the inbox; --wait consumed waits until it is taken"},
	{[]string{api.WayPane}, "each message typed once or not at all, or reported as unknown"},
	{[]string{api.WayMachine}, "each message kept here until the other machine has it, and delivered there once"},
	{[]string{""}, "cannot be written to; teambridge doctor says why"},
}

// overview shows the agents on this machine and how to write to one: what teambridge prints without
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
			return a.printJSON([]api.Session{})
		}
		return a.printf("%s", noAgents("No agent can be found: "+escape(view.Describe(err), false)+".", "Start claude, which makes it, codex or qwen, and"))
	}
	sessions, err := a.bridge(ctx).Sessions(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(sessions)
	}
	list, err := agents(ctx, a, sessions)
	if err != nil {
		return err
	}
	a.warnUnheard(ctx, "")
	a.linksNote(ctx)
	if len(list) == 0 {
		return a.printf("%s", noAgents("No agent runs on "+machine+".", "Start claude, codex or qwen, and"))
	}
	return a.print([]byte(overviewText(list, a.width())))
}

// noAgents says what to do if there are no agents.
func noAgents(why, start string) string {
	return why + "\n" + start + ` run teambridge again. "teambridge demo" shows it on simulated agents.
"teambridge doctor" says what keeps messages from arriving, "teambridge --help" lists the commands.
`
}

// agents returns the members of teams and the panes that live, then the sessions in no team; those
// that can be written to come first, and of those the ones that need the person, are stuck, or work.
func agents(ctx context.Context, a *app, sessions []api.Session) (list []listedAgent, err error) {
	all, err := allTeams(ctx, a)
	if err != nil {
		return nil, err
	}
	shown := map[string]bool{} // MEMBER@TEAM
	alone := map[string]api.Status{}
	taken := map[string]int{} // how many have a name
	for _, t := range all {
		switch {
		case t.Problem != "":
			a.warn("the agents of %s are not known: %s", t.Team, t.Problem)
			continue
		case t.Sessions:
			list, err := a.bridge(ctx).Status(ctx, t.Team)
			if err != nil && !isGone(err) {
				a.warn("what sessions do is not all known: %s", view.Describe(err))
			}
			for _, s := range list {
				alone[s.Member] = s
			}
			continue
		case t.LeadState == teams.Gone.String():
			continue
		}
		members, err := a.bridge(ctx).Status(ctx, t.Team)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && !isGone(err): // the others can be written to
			a.warn("the agents of %s are not known: %s", t.Team, view.Describe(err))
		}
		for _, m := range members {
			if m.Word == api.WordEnded {
				continue
			}
			one := listedAgent{name: m.Member + "@" + t.Team, kind: "member", word: doing(m), rank: rank(m), way: api.WayInbox, dir: cmp.Or(m.Cwd, t.Cwd)}
			switch {
			case t.Panes:
				one.kind, one.way = "pane", api.WayPane
			case t.Machine != "":
				one.way = api.WayMachine
			case m.Relay != nil:
				one.kind = "headless member"
			}
			i := slices.IndexFunc(sessions, func(s api.Session) bool { return s.Team == t.Team && s.Member == m.Member })
			if i >= 0 {
				one.dir = sessions[i].Cwd
			}
			shown[one.name] = true
			taken[m.Member]++
			list = append(list, one)
		}
	}
	for _, s := range sessions {
		if s.Member == "" {
			taken[sessionName(s)]++
		}
	}
	named, err := a.namedTeam("")
	if err != nil {
		return nil, err
	}
	for _, s := range sessions {
		does := api.Status{Word: s.Word, Why: s.Why}
		if placed := alone[sessionName(s)]; s.Member == "" && placed.Word == s.Word {
			does = placed
		}
		one := listedAgent{name: s.Member + "@" + s.Team, kind: "session", word: doing(does), rank: rank(does), way: s.Way, dir: s.Cwd}
		if s.Program != "" {
			one.kind = s.Program + " session"
		}
		switch {
		case shown[one.name]:
			continue
		case s.Member != "":
			one.kind = "member"
		default:
			if one.name = sessionName(s); taken[one.name] > 1 {
				one.name = s.Session
			}
			if named != "" { // which a name without a team belongs to
				one.name += "@" + api.TeamSessions
			}
		}
		list = append(list, one)
	}
	slices.SortStableFunc(list, func(x, y listedAgent) int {
		return cmp.Or(cmp.Compare(min(len(y.way), 1), min(len(x.way), 1)), cmp.Compare(x.rank, y.rank))
	})
	return list, nil
}

func sessionName(s api.Session) string { return cmp.Or(s.As, pane.SessionName(s.Name, s.Session)) }

// doing is the word for what an agent does, and why if that concerns the person.
func doing(s api.Status) string {
	switch {
	case s.Section == api.SectionStuck && s.SectionKind != "":
		return "stuck: " + s.SectionWhy
	case s.Section == api.SectionNeedsYou && s.SectionKind != "" && s.Word != api.WordWaiting:
		return "needs you: " + s.SectionWhy
	case s.Why != "" && (s.Word == api.WordWaiting || s.Word == api.WordBlocked):
		return s.Word + ": " + waitsFor(s)
	}
	return s.Word
}

// rank is the place of an agent's section.
func rank(s api.Status) int {
	at := slices.Index(api.Sections, s.Section)
	if at < 0 {
		at = slices.Index(api.Sections, api.SectionIdle)
	}
	return at
}

// overviewText is a table of agents, what the ways to them promise, and commands to try.
func overviewText(list []listedAgent, columns int) string {
	rows := [][]string{{"NAME", "KIND", "STATE", "REACH", "DIRECTORY"}}
	for _, one := range list[:min(len(list), mostAgents)] {
		rows = append(rows, []string{one.name, one.kind, one.word, dash(one.way), dash(one.dir)})
	}
	var b strings.Builder
	b.WriteString(plain.Table(rows, columns, 1))
	if more := len(list) - mostAgents; more > 0 {
		fmt.Fprintf(&b, "and %d more: teambridge sessions, teambridge teams\n", more)
	}
	b.WriteString("\n")
	for _, p := range promises {
		var ways []string
		for _, way := range p.ways {
			if slices.ContainsFunc(list, func(one listedAgent) bool { return one.way == way }) {
				ways = append(ways, dash(way))
			}
		}
		if len(ways) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", strings.Join(ways, ", "), p.text)
		}
	}
	b.WriteString("\n")
	if i := slices.IndexFunc(list, canBeTyped); i >= 0 {
		name := shell.Quote(list[i].name)
		fmt.Fprintf(&b, "    teambridge send %s \"please review task 12\"\n    teambridge ask %s \"is the build green?\"\n", name, name)
	}
	b.WriteString("    teambridge inbox     # what needs you\n    teambridge --help    # all commands\n")
	return b.String()
}

// canBeTyped reports whether a person can write to an agent under the name that is shown.
func canBeTyped(one listedAgent) bool {
	return one.way != "" && escape(one.name, false) == one.name && !strings.HasPrefix(one.name, "-")
}

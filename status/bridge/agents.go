package bridge

import (
	"cmp"
	"context"
	"slices"

	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// Agents returns all agents; see [api.Bridge].
func (l *Local) Agents(ctx context.Context) (all api.Agents, err error) {
	sessions, err := l.Sessions(ctx)
	if err != nil {
		return all, err
	}
	list, err := l.Teams(ctx)
	if err != nil && list == nil {
		return all, err
	}
	all.Agents = []api.Agent{}
	unknown := func(team string, err error) {
		if err != nil && view.Explain(err).Code != api.CodeGone {
			all.Unknown = append(all.Unknown, api.UnknownTeam{Team: team, Why: view.Describe(err)})
		}
	}
	unknown(api.TeamPanes, err)
	taken := map[string]int{} // number of agents with a name
	placed := map[[2]string]bool{}
	alone := map[string]api.Status{} // sessions in no team
	for _, t := range list {
		if t.Problem != "" {
			all.Unknown = append(all.Unknown, api.UnknownTeam{Team: t.Team, Why: t.Problem})
			continue
		}
		if t.LeadState == teams.Gone.String() {
			continue
		}
		members, err := l.Status(ctx, t.Team)
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		unknown(t.Team, err) // continue with the other agents
		for _, m := range members {
			switch {
			case t.Sessions:
				alone[m.Member] = m
			case m.Word != api.WordEnded:
				taken[m.Member]++
				placed[[2]string{t.Team, m.Member}] = true
				all.Agents = append(all.Agents, agentOf(ctx, t, m, sessions))
			}
		}
	}
	named := map[string]int{} // number of sessions with a name, in no team
	for _, s := range sessions {
		if s.Member == "" {
			named[sessionName(s)]++
		}
	}
	for _, s := range sessions {
		one := api.Agent{
			Name: s.Member + "@" + s.Team, Team: s.Team, Member: s.Member, Session: s.Session, Kind: "member",
		}
		does := api.Status{Word: s.Word, Why: s.Why}
		switch name := sessionName(s); {
		case placed[[2]string{s.Team, s.Member}]:
			continue
		case s.Member == "":
			if alone[name].Word == s.Word {
				does = alone[name]
			}
			one.Name, one.Team, one.Member = name, api.TeamSessions, name
			if named[name] > 1 {
				one.Member = s.Session
			}
			if named[name]+taken[name] > 1 {
				one.Name = s.Session
			}
			if one.Kind = "session"; s.Program != "" {
				one.Kind = s.Program + " session"
			}
		}
		does.Cwd, does.Way, does.Promise = s.Cwd, s.Way, view.Promise(s.Way, s.Program)
		all.Agents = append(all.Agents, described(one, does))
	}
	slices.SortStableFunc(all.Agents, func(x, y api.Agent) int {
		return cmp.Or(cmp.Compare(min(len(y.Way), 1), min(len(x.Way), 1)), cmp.Compare(view.Rank(x.Section), view.Rank(y.Section)))
	})
	return all, nil
}

// agentOf returns a member of a team, or a pane, as an agent.
func agentOf(ctx context.Context, t api.Team, m api.Status, sessions []api.Session) api.Agent {
	one := api.Agent{Name: m.Member + "@" + t.Team, Team: t.Team, Member: m.Member, Kind: "member"}
	m.Cwd = cmp.Or(m.Cwd, t.Cwd)
	switch {
	case t.Panes:
		if one.Kind = "pane"; Agent(ctx) { // what is typed there counts as a person's words
			m.Way, m.Promise = "", view.Promise("", "")
		}
	case m.Relay != nil:
		one.Kind = "headless member"
	}
	for _, s := range sessions {
		if s.Team == t.Team && s.Member == m.Member {
			one.Session, m.Cwd = s.Session, s.Cwd
		}
	}
	return described(one, m)
}

// described fills in what an agent does.
func described(one api.Agent, does api.Status) api.Agent {
	one.Word, one.Why, one.Does, one.Overview = does.Word, does.Why, view.Does(does), does.Overview
	return one
}

// sessionName returns the name of a session in no team.
func sessionName(s api.Session) string { return cmp.Or(s.As, pane.SessionName(s.Name, s.Session)) }

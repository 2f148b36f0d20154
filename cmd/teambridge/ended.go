package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// A listedTeam is a team of "teams --all".
type listedTeam struct {
	api.Team
	Ended     bool       `json:"ended"`
	LastHeard *time.Time `json:"lastHeard,omitempty"` // if it has ended: when something of it was last recorded
}

// allTeams prints the teams that exist, and then those that have ended.
func (a *app) allTeams(ctx context.Context, root *teams.Root, infos []api.Team) error {
	ended, err := a.ended(ctx, root, "")
	if err != nil {
		return err
	}
	list := make([]listedTeam, 0, len(infos)+len(ended))
	for _, i := range infos {
		list = append(list, listedTeam{Team: i})
	}
	for _, e := range ended {
		team := api.Team{Team: e.Team.Team, LeadState: teams.Gone.String()}
		if e.Team.CreatedAt != 0 {
			team.CreatedAt = time.UnixMilli(e.Team.CreatedAt).UTC()
		}
		list = append(list, listedTeam{Team: team, Ended: true, LastHeard: &e.LastHeard})
	}
	if a.json {
		return a.printJSON(list)
	}
	if len(list) == 0 {
		a.note("there is no team under %s, and none in the journal", root.Path())
		return nil
	}
	rows := [][]string{{"TEAM", "LEAD", "STATE", "MEMBERS", "CREATED", "DIRECTORY"}}
	for _, l := range list {
		if l.Ended {
			rows = append(rows, []string{l.Team.Team, "-", "ended", "-", clock(l.CreatedAt), "last heard " + clock(*l.LastHeard)})
			continue
		}
		rows = append(rows, teamRow(l.Team))
	}
	if err := a.table(rows); err != nil {
		return err
	}
	if len(ended) > 0 {
		a.note("%s", historyHint(ended[0].Team.Team))
	}
	return nil
}

// ended returns the teams in the journal, or those of one name, that no longer exist under
// root. The one that was heard last comes first.
func (a *app) ended(ctx context.Context, root *teams.Root, name string) ([]journal.TeamRecord, error) {
	var err error
	if a.state, err = a.findState(a.state); err != nil { // it was not needed up to now
		return nil, err
	}
	j, err := a.journalIfAny(ctx)
	if err != nil || j == nil {
		return nil, err
	}
	q := journal.Query{Root: root.Path(), Team: name}
	a.replicate(ctx, j, q)
	list, err := j.Teams(ctx, q)
	if err != nil {
		return nil, err
	}
	_, panes, err := a.panesIfAny(ctx)
	if err != nil {
		a.debug("panes are not known: %v", err)
	}
	list = slices.DeleteFunc(list, func(r journal.TeamRecord) bool {
		if len(panes) > 0 && r.Team == paneInstance(panes) {
			return true
		}
		t, err := root.Team(r.Team.Team)
		if err != nil {
			return !errors.As(err, new(*teams.NotFoundError))
		}
		defer t.Close()
		c, err := t.Config(ctx)
		return err != nil || c.Instance() == r.Team
	})
	slices.SortStableFunc(list, func(a, b journal.TeamRecord) int { return b.LastHeard.Compare(a.LastHeard) })
	return list, nil
}

// orEnded returns the error of opening a team by name: another one if it has ended.
func (a *app) orEnded(ctx context.Context, root *teams.Root, name string, err error) error {
	if !errors.As(err, new(*teams.NotFoundError)) {
		return err
	}
	ended, jerr := a.ended(ctx, root, name)
	if jerr != nil {
		a.debug("whether the team has ended is not known: %s", view.Describe(jerr))
	}
	if len(ended) == 0 {
		return err
	}
	return api.Decide(api.CodeGone, historyHint(name),
		"the team %s has ended; it was last heard %s", name, lastHeard(ended[0].LastHeard))
}

// historyHint says how to see what was said in a team that has ended.
func historyHint(team string) string {
	return "see what was said: teambridge history --team " + shellQuote(team)
}

// endedNote says that a team has ended while it was watched.
func (a *app) endedNote(team string) {
	a.note("the team %s has ended; %s", team, historyHint(team))
}

// lastHeard is "at" a time of today, or "on" an earlier day.
func lastHeard(t time.Time) string {
	if len(clock(t)) == len("15:04:05") {
		return "at " + clock(t)
	}
	return "on " + clock(t)
}

// teamWith opens the team of MEMBER[@TEAM], and returns the member's name. Without a team it
// is the only living one that has the member, or else the default one.
func (a *app) teamWith(ctx context.Context, address string) (_ *teams.Team, member string, err error) {
	member, team := teams.Split(address)
	named, err := a.namedTeam(team)
	if err != nil {
		return nil, "", err
	}
	if named == "" && member != "" {
		root, err := a.root()
		if err != nil {
			return nil, "", err
		}
		found, err := root.Living(ctx, member)
		if err != nil {
			return nil, "", err
		}
		if len(found) == 1 {
			named = found[0]
		}
	}
	t, err := a.team(ctx, named)
	return t, member, err
}

package main

import (
	"context"
	"time"

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
	ended, err := a.local().Ended(ctx, "")
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
		a.note("%s", view.HistoryHint(ended[0].Team.Team))
	}
	return nil
}

// endedNote says that a team has ended while it was watched.
func (a *app) endedNote(team string) {
	a.note("the team %s has ended; %s", team, view.HistoryHint(team))
}

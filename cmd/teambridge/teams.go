package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

func newTeams(a *app) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "teams",
		Short: "List the teams",
		Long: `List the teams, their leads, and whether the lead's process is alive.

Claude Code up to 2.1.310 does not record that process. Then a lead is alive if
its session's process exists, or its conversation went on in the last 5
minutes; otherwise its state is "unknown", as is that of a process that cannot
be examined.

--all adds the teams that have ended, if the journal has messages of them, and
when something of each was last recorded. The panes that were registered with
"teambridge pane add" are the team tmux.

Exit status: 0, even if there are none; 3 there is no Claude directory.`,
		Example: `  teambridge teams --all`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.teams(cmd.Context(), all) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "include teams that have ended")
	return cmd
}

func (a *app) teams(ctx context.Context, all bool) error {
	infos, err := a.bridge(ctx).Teams(ctx)
	if err != nil && infos != nil {
		a.warn("%s; panes are not known", view.Describe(err))
	} else if err != nil {
		return err
	}
	if all {
		return a.allTeams(ctx, infos)
	}
	if a.json {
		return a.printJSON(infos)
	}
	if len(infos) == 0 {
		a.note("there is no team under %s", a.where())
		return nil
	}
	rows := [][]string{{"TEAM", "LEAD", "STATE", "MEMBERS", "CREATED", "DIRECTORY"}}
	for _, i := range infos {
		rows = append(rows, teamRow(i))
	}
	return a.table(rows)
}

func teamRow(i api.Team) []string {
	if i.Problem != "" {
		// In the last column, where its length moves nothing.
		return []string{i.Team, "-", "-", "-", "-", i.Problem}
	}
	if i.Panes {
		return []string{i.Team, "-", "-", strconv.Itoa(i.Members), clock(i.CreatedAt), "tmux panes"}
	}
	return []string{i.Team, dash(i.Lead), i.LeadState, strconv.Itoa(i.Members), clock(i.CreatedAt), dash(i.Cwd)}
}

// A listedTeam is a team of "teams --all".
type listedTeam struct {
	api.Team
	Ended     bool       `json:"ended"`
	LastHeard *time.Time `json:"lastHeard,omitempty"` // if it has ended: when something of it was last recorded
}

// allTeams prints the teams that exist, and then those that have ended.
func (a *app) allTeams(ctx context.Context, infos []api.Team) error {
	ended, err := a.bridge(ctx).EndedTeams(ctx)
	if err != nil {
		return err
	}
	list := make([]listedTeam, 0, len(infos)+len(ended))
	for _, i := range infos {
		list = append(list, listedTeam{Team: i})
	}
	for _, e := range ended {
		team := api.Team{Team: e.Team, LeadState: teams.Gone.String(), CreatedAt: e.CreatedAt}
		list = append(list, listedTeam{Team: team, Ended: true, LastHeard: &e.LastHeard})
	}
	if a.json {
		return a.printJSON(list)
	}
	if len(list) == 0 {
		a.note("there is no team under %s, and none in the journal", a.where())
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
		a.note("%s", view.HistoryHint(ended[0].Team))
	}
	return nil
}

func newMembers(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "members",
		Short: "List the members of a team",
		Long: `List the members of a team, their unread messages, and their relays.

Inboxes without a member are listed too. The prompt that a member was started
with is not shown, because it may contain secrets.

Exit status: 0; 3 no such team; 4 a service runs and does not answer, so it is
not known whether its relays are stopped; 6 config.json is corrupt.`,
		Example: `  teambridge members --team myteam`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.members(cmd.Context()) },
	}
}

func (a *app) members(ctx context.Context) error {
	to, err := a.meant(ctx)
	if err != nil {
		return err
	}
	infos, err := a.bridge(ctx).Members(ctx, to.Team)
	if err != nil && infos != nil {
		a.warn("%s; relays are not shown", view.Describe(err))
	} else if err != nil {
		return err
	}
	return errors.Join(a.printMembers(infos), a.unheard(ctx, to.Team))
}

func (a *app) printMembers(infos []api.Member) error {
	if a.json {
		return a.printJSON(infos)
	}
	rows := [][]string{{"MEMBER", "ROLE", "TYPE", "MODEL", "COLOR", "JOINED", "UNREAD", "RELAY"}}
	for _, i := range infos {
		unread := "-"
		switch {
		case i.Problem != "":
			unread = i.Problem
		case i.Inbox, i.Backend == pane.Team && i.Team == pane.Team:
			unread = strconv.Itoa(i.Unread)
		}
		joined := "-"
		if i.JoinedAt != nil {
			joined = clock(*i.JoinedAt)
		}
		rows = append(rows, []string{i.Member, i.Role, dash(i.Type), dash(i.Model), dash(i.Color), joined, unread, dash(view.RelayState(i.Relay, i.Place))})
	}
	if !slices.ContainsFunc(infos, func(i api.Member) bool { return i.Relay != "" }) {
		for i, r := range rows {
			rows[i] = r[:len(r)-1]
		}
	}
	return a.table(rows)
}

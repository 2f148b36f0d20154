package main

import (
	"context"
	"errors"
	"fmt"
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
its session's process exists, or its conversation went on in the last 5 minutes;
otherwise its state is "unknown". So is the state of a process that cannot be
examined.

--all adds the ended teams of which the journal has messages, with the time of
the last record. The panes that were registered with "teambridge pane add" are
the team tmux.

Exit status: 0, even if there are none; 3 there is no Claude directory.`,
		Example: `  teambridge teams --all`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listTeams(cmd.Context(), a, all) },
	}
	allFlag(cmd, &all, "include teams that have ended")
	return cmd
}

// allTeams returns the teams. It warns if the panes could not be listed.
func allTeams(ctx context.Context, a *app) ([]api.Team, error) {
	list, err := a.bridge(ctx).Teams(ctx)
	if err != nil && list != nil {
		a.warnError(fmt.Errorf("%w; the panes are unknown", err))
		err = nil
	}
	return list, err
}

// A listedTeam is a team of "teams --all".
type listedTeam struct {
	api.Team
	Ended     bool       `json:"ended"`
	LastHeard *time.Time `json:"lastHeard,omitempty"` // if it has ended: when something of it was last recorded
}

// listTeams prints the teams that exist and, with all, then those that have ended.
func listTeams(ctx context.Context, a *app, all bool) error {
	infos, err := allTeams(ctx, a)
	if err != nil {
		return err
	}
	head := []string{"TEAM", "LEAD", "STATE", "MEMBERS", "CREATED", "DIRECTORY"}
	if !all {
		return printList(&a.console, infos, "there is no team under "+a.where(), head, func(t api.Team) []string { return listedTeam{Team: t}.row() })
	}
	ended, err := a.bridge(ctx).EndedTeams(ctx)
	if err != nil {
		return err
	}
	list := make([]listedTeam, 0, len(infos)+len(ended))
	for _, t := range infos {
		list = append(list, listedTeam{Team: t})
	}
	for _, e := range ended {
		team := api.Team{Team: e.Team, LeadState: teams.Gone.String(), CreatedAt: e.CreatedAt}
		list = append(list, listedTeam{Team: team, Ended: true, LastHeard: &e.LastHeard})
	}
	err = printList(&a.console, list, "there is no team under "+a.where()+", and none in the journal", head, listedTeam.row)
	if err == nil && len(ended) > 0 {
		a.note("%s", view.HistoryHint(ended[0].Team))
	}
	return err
}

func (t listedTeam) row() []string {
	name, members := t.Team.Team, strconv.Itoa(t.Members)
	switch {
	case t.Ended:
		return []string{name, "-", "ended", "-", clock(t.CreatedAt), "last heard " + clock(*t.LastHeard)}
	case t.Problem != "":
		return []string{name, "-", "-", "-", "-", t.Problem} // the last column, since the text is long
	case t.Panes:
		return []string{name, "-", "-", members, clock(t.CreatedAt), "tmux panes"}
	case t.Sessions:
		return []string{name, "-", "-", members, "-", "sessions in no team"}
	case t.Machine != "":
		return []string{name, "-", "-", members, "-", "on " + t.Machine}
	}
	return []string{name, dash(t.Lead), t.LeadState, members, clock(t.CreatedAt), dash(t.Cwd)}
}

func newMembers(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "members",
		Short: "List the members of a team",
		Long: `List the members of a team, their unread messages, and their relays.

Inboxes without a member are listed too. A member's first prompt is not shown,
because it may contain secrets. A warning names agents whose Claude Code is too
old.

Exit status: 0; 3 no such team; 4 a service runs and does not answer, so the
states of its relays are unknown; 6 config.json is corrupt.`,
		Example: `  teambridge members --team myteam`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listMembers(cmd.Context(), a) },
	}
}

func listMembers(ctx context.Context, a *app) error {
	to, err := a.targetToRead(ctx)
	if err != nil {
		return err
	}
	infos, err := a.bridge(ctx).Members(ctx, to.Team)
	if err != nil && infos != nil {
		a.warnError(fmt.Errorf("%w; relays are not shown", err))
	} else if err != nil {
		return err
	}
	return errors.Join(printMembers(a, infos), a.serviceError(ctx, to.Team))
}

func printMembers(a *app, infos []api.Member) error {
	if a.json {
		return a.printJSON(infos)
	}
	for _, i := range infos {
		if v, err := teams.ParseVersion(i.Version); err == nil && i.Outdated {
			a.warn("%v", v.Check(i.Member))
		}
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

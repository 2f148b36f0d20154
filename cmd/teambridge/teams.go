package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/teams"
)

func newTeams(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "teams",
		Short: "List the teams",
		Long: `List the teams under Claude Code's directory: their members, and whether the
process that leads them is alive. "unknown" is said of teams of older versions,
which do not write it down, and of processes that cannot be looked at from here.

Exit status: 0, also when there are none; 3 there is no Claude directory.`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.teams(cmd.Context()) },
	}
}

// teamInfo is what teams says about one. The names are those of --json.
type teamInfo struct {
	Team       string    `json:"team"`
	Lead       string    `json:"lead"`       // the lead's name
	LeadState  string    `json:"leadState"`  // alive, gone, unknown
	Generation string    `json:"generation"` // G1: 2.1.80 and like it; G2: 2.1.329 and like it
	Members    int       `json:"members"`
	CreatedAt  time.Time `json:"createdAt"`
	Cwd        string    `json:"cwd"`
	Problem    string    `json:"problem,omitempty"`
}

func (a *app) teams(ctx context.Context) error {
	root, err := a.root()
	if err != nil {
		return err
	}
	defer root.Close()
	all, err := root.Teams()
	if err != nil {
		return err
	}
	infos := make([]teamInfo, 0, len(all))
	for _, l := range all {
		info, err := describe(ctx, root, l)
		if err != nil {
			return err
		}
		infos = append(infos, info)
	}
	if a.json {
		return a.printJSON(infos)
	}
	if len(infos) == 0 {
		a.note("there is no team under %s", root.Path())
		return nil
	}
	rows := [][]string{{"TEAM", "LEAD", "STATE", "MEMBERS", "CREATED", "DIRECTORY"}}
	for _, i := range infos {
		if i.Problem != "" {
			// In the last column, where its length moves nothing.
			rows = append(rows, []string{i.Team, "-", "-", "-", "-", i.Problem})
			continue
		}
		rows = append(rows, []string{i.Team, dash(i.Lead), i.LeadState, strconv.Itoa(i.Members), clock(i.CreatedAt), dash(i.Cwd)})
	}
	return a.table(rows)
}

// describe looks into one team. What is wrong with it is part of the answer.
func describe(ctx context.Context, root *teams.Root, l teams.Listing) (teamInfo, error) {
	info := teamInfo{Team: l.Name, LeadState: teams.Unknown.String()}
	switch {
	case l.Orphan:
		info.Problem = "no config.json"
		return info, nil
	case l.Err != nil:
		info.Problem = describeError(l.Err)
		return info, nil
	}
	t, err := root.Team(l.Name)
	if err == nil {
		defer t.Close()
		var c *teams.Config
		if c, err = t.Config(ctx); err == nil {
			lead, _ := c.Lead()
			info.Lead, info.Cwd = lead.Name, lead.Cwd
			info.LeadState = c.LeadProcess.Liveness().String()
			info.Generation = c.Generation().String()
			info.Members, info.CreatedAt = len(c.Members), c.CreatedAt
			return info, nil
		}
	}
	if ctx.Err() != nil {
		return info, err
	}
	info.Problem = describeError(err)
	return info, nil
}

func newMembers(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "members",
		Short: "List the members of a team",
		Long: `List the members of a team, as its config.json has them, with the number of
unread messages in each inbox, and what the relays of headless agents do. Inboxes
without a member are listed too. What a
member was started with (its prompt) is not shown: it can hold secrets.

Exit status: 0; 3 no such team; 6 config.json is corrupt.`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.members(cmd.Context()) },
	}
}

// memberInfo is what members says about one. The names are those of --json.
type memberInfo struct {
	Team     string     `json:"team"`
	Member   string     `json:"member"`
	Role     string     `json:"role"` // lead, agent, guest (a person), none (an inbox without a member)
	AgentID  string     `json:"agentId,omitempty"`
	Type     string     `json:"agentType,omitempty"`
	Model    string     `json:"model,omitempty"`
	Color    string     `json:"color,omitempty"`
	Backend  string     `json:"backendType,omitempty"`
	Cwd      string     `json:"cwd,omitempty"`
	JoinedAt *time.Time `json:"joinedAt,omitempty"`
	Inbox    bool       `json:"inbox"`           // there is a file
	Unread   int        `json:"unread"`          // rows that are not read
	Relay    string     `json:"relay,omitempty"` // what the relay of a headless agent does
	Problem  string     `json:"problem,omitempty"`
}

func (a *app) members(ctx context.Context) error {
	t, err := a.team(ctx, "")
	if err != nil {
		return err
	}
	defer closeAll(t)
	infos, err := a.memberInfos(ctx, t)
	if err != nil {
		return err
	}
	if l, err := a.ledgerIfAny(ctx); err != nil {
		a.warn("%s; what is relayed is not known", describeError(err))
	} else if l != nil {
		relays, err := a.relays(ctx, l, t)
		if err := errors.Join(err, l.Close()); err != nil {
			return err
		}
		for i := range infos {
			if r := relays[infos[i].Member]; r != nil {
				infos[i].Relay = string(r.State)
			}
		}
	}
	if a.json {
		return a.printJSON(infos)
	}
	rows := [][]string{{"MEMBER", "ROLE", "TYPE", "MODEL", "COLOR", "JOINED", "UNREAD"}}
	relayed := slices.ContainsFunc(infos, func(i memberInfo) bool { return i.Relay != "" })
	if relayed {
		rows[0] = append(rows[0], "RELAY")
	}
	for _, i := range infos {
		unread := "-"
		switch {
		case i.Problem != "":
			unread = i.Problem
		case i.Inbox:
			unread = strconv.Itoa(i.Unread)
		}
		joined := "-"
		if i.JoinedAt != nil {
			joined = clock(*i.JoinedAt)
		}
		row := []string{i.Member, i.Role, dash(i.Type), dash(i.Model), dash(i.Color), joined, unread}
		if relayed {
			row = append(row, dash(i.Relay))
		}
		rows = append(rows, row)
	}
	return a.table(rows)
}

func (a *app) memberInfos(ctx context.Context, t *teams.Team) ([]memberInfo, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	names, err := t.Inboxes()
	if err != nil {
		return nil, err
	}
	lead, _ := c.Lead()
	infos := []memberInfo{}
	for _, m := range c.Members {
		info := memberInfo{
			Team: t.Name(), Member: m.Name, Role: "agent", AgentID: m.AgentID, Type: m.AgentType,
			Model: m.Model, Color: m.Color, Backend: m.BackendType, Cwd: m.Cwd,
		}
		if !m.JoinedAt.IsZero() {
			info.JoinedAt = &m.JoinedAt
		}
		switch {
		case m.Name == lead.Name:
			info.Role = "lead"
		case m.Guest():
			info.Role = "guest"
		}
		infos = append(infos, info)
	}
	for _, name := range names {
		if _, ok := c.Member(name); !ok {
			infos = append(infos, memberInfo{Team: t.Name(), Member: name, Role: "none"})
		}
	}
	for i := range infos {
		if err := a.count(ctx, t, &infos[i]); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// count reads the inbox of info's member.
func (a *app) count(ctx context.Context, t *teams.Team, info *memberInfo) error {
	box, err := a.inbox(t, info.Member)
	if err != nil {
		return err
	}
	rows, err := box.Read(ctx)
	switch {
	case ctx.Err() != nil, errors.Is(err, teams.ErrTeamGone):
		return err
	case errors.Is(err, inbox.ErrMissing):
		return nil
	case errors.Is(err, inbox.ErrEmpty):
	case err != nil:
		info.Problem = describeError(err)
	}
	info.Inbox = true
	for _, r := range rows {
		if !r.Read {
			info.Unread++
		}
	}
	return nil
}

// Package view converts teams, members, states, messages, deliveries, relays and errors into the types of package
// api. The command line and the service both use it, so that they show the same.
//
// Teams, members and inboxes are read from the files as they are now, and earlier
// messages from the journal.
package view

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teambridge/inbox"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/teams"
)

// Teams returns all teams, sorted by name. Problems of a team are part of the result.
func Teams(ctx context.Context, root *teams.Root) ([]api.Team, error) {
	all, err := root.Teams()
	if err != nil {
		return nil, err
	}
	list := make([]api.Team, 0, len(all))
	for _, l := range all {
		team, err := Listed(ctx, root, l)
		if err != nil {
			return nil, err
		}
		list = append(list, team)
	}
	return list, nil
}

// Listed returns one team as [Teams] does.
func Listed(ctx context.Context, root *teams.Root, l teams.Listing) (api.Team, error) {
	shown := api.Team{Team: l.Name, LeadState: teams.Unknown.String()}
	switch {
	case l.Orphan:
		shown.Problem = "no config.json"
		return shown, nil
	case l.Err != nil:
		shown.Problem = Describe(l.Err)
		return shown, nil
	}
	t, err := root.Team(l.Name)
	if err == nil {
		defer t.Close()
		var c *teams.Config
		if c, err = t.Config(ctx); err == nil {
			return Team(t, c, time.Now()), nil
		}
	}
	if ctx.Err() != nil {
		return shown, err
	}
	shown.Problem = Describe(err)
	return shown, nil
}

// Team converts a team with the config.json c, as of now.
func Team(t *teams.Team, c *teams.Config, now time.Time) api.Team {
	lead, _ := c.Lead()
	version := ""
	if v := t.Agent(c, lead.Name).Version(); v.Known() {
		version = v.String()
	}
	return api.Team{
		Team: c.Team, Lead: lead.Name, LeadState: t.LeadState(c, now).String(), Version: version,
		Members: len(c.Members), CreatedAt: c.CreatedAt, Cwd: lead.Cwd,
	}
}

// Members returns the members of a team in the order of its config.json, then the
// inboxes without a member.
func Members(ctx context.Context, t *teams.Team) ([]api.Member, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	names, err := t.Inboxes()
	if err != nil {
		return nil, err
	}
	lead, _ := c.Lead()
	versions := t.Versions(c)
	list := []api.Member{}
	for _, m := range c.Members {
		shown := api.Member{
			Team: t.Name(), Member: m.Name, Role: api.RoleAgent, AgentID: m.AgentID, Type: m.AgentType,
			Model: m.Model, Color: m.Color, Backend: m.BackendType, Cwd: m.Cwd, JoinedAt: timeOrNil(m.JoinedAt),
		}
		if v, ok := versions[m.Name]; ok {
			shown.Version, shown.Outdated = v.String(), v.Outdated()
		}
		switch {
		case m.Name == lead.Name:
			shown.Role = api.RoleLead
		case m.Guest():
			shown.Role = api.RoleGuest
		}
		list = append(list, shown)
	}
	for _, name := range names {
		if _, ok := c.Member(name); !ok {
			list = append(list, api.Member{Team: t.Name(), Member: name, Role: api.RoleNone})
		}
	}
	for i := range list {
		if _, err := count(ctx, t, &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// count sets the number of unread rows in m's inbox, and returns the number of entries that are not messages.
func count(ctx context.Context, t *teams.Team, m *api.Member) (passed int, err error) {
	box, err := inbox.Open(t, m.Member, nil) // reading takes no lock
	if err != nil {
		return 0, err
	}
	rows, over, err := box.ReadAll(ctx)
	switch {
	case ctx.Err() != nil, errors.Is(err, teams.ErrTeamGone):
		return 0, err
	case errors.Is(err, inbox.ErrMissing):
		return 0, nil
	case errors.Is(err, inbox.ErrEmpty):
	case err != nil:
		m.Problem = Describe(err)
	}
	m.Inbox = true
	for _, r := range rows {
		if !r.Read {
			m.Unread++
		}
	}
	return len(over), nil
}

// PassedOver describes the entries of an inbox that are not messages, and what happens to them.
func PassedOver(path string, list []inbox.PassedOver) string {
	more := ""
	if len(list) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(list)-1)
	}
	return fmt.Sprintf("inbox %s: %s%s; no agent is given it: Claude Code removes it when it looks next, and teambridge leaves it as it is", path, list[0], more)
}

// Unread returns the number of unread rows in the inbox of a member.
func Unread(ctx context.Context, t *teams.Team, member string) (int, error) {
	m := api.Member{Team: t.Name(), Member: member}
	_, err := count(ctx, t, &m)
	return m.Unread, err
}

// Statuses returns the status of each agent of a team, as of now. relays has the relays of headless members, and
// asked the oldest open question of each.
func Statuses(ctx context.Context, src status.Source, t *teams.Team, relays map[string]*api.Relay, asked map[string]*api.Question, now time.Time) ([]api.Status, error) {
	known, err := Known(ctx, src, t, now)
	if err != nil {
		return nil, err
	}
	return Decided(known, relays, asked, now), nil
}

// Known reads the facts about each member that [Decided] needs, with the number of unread messages.
func Known(ctx context.Context, src status.Source, t *teams.Team, now time.Time) ([]status.Known, error) {
	known, err := src.Read(ctx, t, now)
	for i := range known {
		if err == nil {
			m := api.Member{Team: t.Name(), Member: known[i].Member}
			known[i].PassedOver, err = count(ctx, t, &m)
			known[i].Unread = m.Unread
		}
	}
	return known, err
}

// Decided returns the status of each member, decided by the facts about it and its relay.
func Decided(known []status.Known, relays map[string]*api.Relay, asked map[string]*api.Question, now time.Time) []api.Status {
	list := []api.Status{}
	for _, k := range known {
		k.Agent, k.Question = relays[k.Member], asked[k.Member]
		list = append(list, k.Decide(now))
	}
	return list
}

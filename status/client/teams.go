package client

import (
	"context"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

// teams has the operations on teams, members and sessions, and on items that need the person.
type teams struct{ *conn }

// Target resolves names in a scope; see [api.Bridge].
func (c teams) Target(ctx context.Context, s api.Scope, names ...string) (api.Target, error) {
	return call(ctx, c.conn, &op.Target, op.TargetQuery{Scope: s, Names: names})
}

// Teams returns all teams, sorted by name.
func (c teams) Teams(ctx context.Context) ([]api.Team, error) {
	return call(ctx, c.conn, &op.Teams, op.None{})
}

// EndedTeams returns the teams that were recorded and no longer exist.
func (c teams) EndedTeams(ctx context.Context) ([]api.EndedTeam, error) {
	return call(ctx, c.conn, &op.EndedTeams, op.None{})
}

// Team returns one team, and the names of the person in it.
func (c teams) Team(ctx context.Context, team string) (api.TeamDetail, error) {
	return call(ctx, c.conn, &op.Team, op.OfTeam{Team: team})
}

// Members returns the members of a team, then the inboxes without a member.
func (c teams) Members(ctx context.Context, team string) ([]api.Member, error) {
	return call(ctx, c.conn, &op.Members, op.OfTeam{Team: team})
}

// Status returns the status of each agent of a team, or of the named members.
func (c teams) Status(ctx context.Context, team string, members ...string) ([]api.Status, error) {
	return call(ctx, c.conn, &op.Status, op.StatusQuery{OfTeam: op.OfTeam{Team: team}, Members: members})
}

// Join joins a team; see [api.Bridge].
func (c teams) Join(ctx context.Context, team string, n api.NewJoin) (api.Membership, error) {
	return call(ctx, c.conn, &op.Join, op.JoinRequest{OfTeam: op.OfTeam{Team: team}, With: op.With[api.NewJoin]{Body: n}})
}

// Leave leaves a team; see [api.Bridge].
func (c teams) Leave(ctx context.Context, team, as string) ([]api.Membership, error) {
	return call(ctx, c.conn, &op.Leave, op.LeaveRequest{OfTeam: op.OfTeam{Team: team}, With: op.With[api.Leave]{Body: api.Leave{As: as}}})
}

// Sessions returns the sessions of Claude Code on the machine of the service.
func (c teams) Sessions(ctx context.Context) ([]api.Session, error) {
	return call(ctx, c.conn, &op.Sessions, op.None{})
}

// Rename names a session; see [api.Bridge].
func (c teams) Rename(ctx context.Context, team, member string, n api.NewName) (api.Renamed, error) {
	return call(ctx, c.conn, &op.Rename, op.RenameRequest{OfMember: op.Of(team, member), With: op.With[api.NewName]{Body: n}})
}

// Agents returns all agents; see [api.Bridge].
func (c teams) Agents(ctx context.Context) (api.Agents, error) {
	return call(ctx, c.conn, &op.AllAgents, op.None{})
}

// Attention returns the items that need the person; see [api.Bridge].
func (c teams) Attention(ctx context.Context, team string) ([]api.Attention, error) {
	return call(ctx, c.conn, &op.Attention, op.InTeam{Team: team})
}

// Inbox returns the items that need the person, with the unread messages; see [api.Bridge].
func (c teams) Inbox(ctx context.Context, q api.InboxQuery) (api.Inbox, error) {
	return call(ctx, c.conn, &op.Inbox, q)
}

// Dismiss hides the item with an id; see [api.Bridge].
func (c teams) Dismiss(ctx context.Context, id string) (api.Attention, error) {
	return call(ctx, c.conn, &op.Dismiss, op.With[api.Dismiss]{Body: api.Dismiss{ID: id}})
}

// Findings returns the problems that keep messages to a team from arriving; see [api.Bridge].
func (c teams) Findings(ctx context.Context, team string, fix bool) (api.Report, error) {
	o := &op.Doctor
	if fix {
		o = &op.Fix
	}
	return call(ctx, c.conn, o, op.InTeam{Team: team})
}

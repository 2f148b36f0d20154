package op

import (
	"context"

	"teambridge/status/api"
)

// Get which team, and which of its members or panes, names mean. Without a team, it is the only living one that has the
// members, or that of the directory, or the only one.
//
// The error is ambiguous_team if several teams could be meant; nearest has their names.
var Target = Op[TargetQuery, api.Target]{
	Route: Route{Method: "GET", Path: "/v1/target", Who: Agents, Answers: []Answer{{200, "what is meant"}}},
	Do: func(ctx context.Context, b api.Bridge, q TargetQuery) (api.Target, error) {
		return b.Target(ctx, q.Scope, q.Names...)
	},
}

// List the existing teams, sorted by name, with the team tmux while a pane is registered. If a team cannot be read, its
// problem says why.
var Teams = Op[None, []api.Team]{
	Route: Route{Method: "GET", Path: "/v1/teams", Who: Agents, Answers: []Answer{{200, "teams"}}},
	Do:    none(api.Bridge.Teams),
}

// List the teams that were recorded and no longer exist, the last heard first.
var EndedTeams = Op[None, []api.EndedTeam]{
	Route: Route{Method: "GET", Path: "/v1/ended-teams", Answers: []Answer{{200, "teams"}}},
	Do:    none(api.Bridge.EndedTeams),
}

// Get one team, and the person's names in it.
var Team = Op[OfTeam, api.TeamDetail]{
	Route: Route{Method: "GET", Path: "/v1/teams/{team}", Who: Agents, Answers: []Answer{{200, "the team"}}},
	Do:    of[OfTeam](api.Bridge.Team),
}

// List the members of a team in the order of config.json, then the inboxes without a member.
var Members = Op[OfTeam, []api.Member]{
	Route: Route{Method: "GET", Path: "/v1/teams/{team}/members", Who: Agents, Answers: []Answer{{200, "members"}}},
	Do:    of[OfTeam](api.Bridge.Members),
}

// Get the state of each agent of a team, and the message that it rests on. People who joined have no status.
var Status = Op[StatusQuery, []api.Status]{
	Route: Route{Method: "GET", Path: "/v1/teams/{team}/status", Who: Agents, Answers: []Answer{{200, "the status of each agent"}}},
	Do: func(ctx context.Context, b api.Bridge, q StatusQuery) ([]api.Status, error) {
		return b.Status(ctx, q.Team, q.Members...)
	},
}

// Join a team under a name that its agents can write to. Joining twice is joining once.
var Join = Op[JoinRequest, api.Membership]{
	Route: Route{Method: "POST", Path: "/v1/teams/{team}/join", Changes: true, Answers: []Answer{{200, "the name of the person in the team"}}},
	Do: func(ctx context.Context, b api.Bridge, q JoinRequest) (api.Membership, error) {
		return b.Join(ctx, q.Team, q.Body)
	},
}

// Leave a team that the person has joined. Inboxes stay.
var Leave = Op[LeaveRequest, []api.Membership]{
	Route: Route{Method: "POST", Path: "/v1/teams/{team}/leave", Changes: true, Answers: []Answer{{200, "the names that were left"}}},
	Do: func(ctx context.Context, b api.Bridge, q LeaveRequest) ([]api.Membership, error) {
		return b.Leave(ctx, q.Team, q.Body.As)
	},
}

// List the living sessions of Claude Code on the machine of the service, in teams or not, the oldest process first.
var Sessions = Op[None, []api.Session]{
	Route: Route{Method: "GET", Path: "/v1/sessions", Who: Agents, Answers: []Answer{{200, "sessions"}}},
	Do:    none(api.Bridge.Sessions),
}

// Give a session in no team a name of its own, or take it away. It keeps the name when it is resumed with its id.
//
// The history has earlier messages under the new name. The person's /rename in Claude Code does not change it.
var Rename = Op[RenameRequest, api.Renamed]{
	Route: Route{Method: "PUT", Path: "/v1/teams/{team}/members/{member}/name", Changes: true, Answers: []Answer{{200, "the session with its new name"}}, Errors: []int{404, 409, 422}},
	Do: func(ctx context.Context, b api.Bridge, q RenameRequest) (api.Renamed, error) {
		return b.Rename(ctx, q.Team, q.Member, q.Body)
	},
}

// List all living agents, in teams or not, on the machine of the service and, as far as they are shared, on others:
// their states, how a message reaches them, and what that way can promise.
var AllAgents = Op[None, api.Agents]{
	Route: Route{Method: "GET", Path: "/v1/agents", Who: Agents, Answers: []Answer{{200, "agents"}}},
	Do:    none(api.Bridge.Agents),
}

// List everything that waits for a person, the oldest first. Snapshots of /v1/events have the same list.
var Attention = Op[InTeam, []api.Attention]{
	Route: Route{Method: "GET", Path: "/v1/attention", Answers: []Answer{{200, "the items"}}},
	Do:    of[InTeam](api.Bridge.Attention),
}

// Read everything that needs the person, in all teams or one, with the messages that are unread.
var Inbox = Op[api.InboxQuery, api.Inbox]{
	Route: Route{Method: "GET", Path: "/v1/inbox", Large: true, Answers: []Answer{{200, "what needs the person"}}},
	Do:    query(api.Bridge.Inbox),
}

// Hide one item for as long as it waits. When it waits again, it has another id and is shown. Items that can be
// answered, read or released cannot be dismissed (422).
var Dismiss = Op[With[api.Dismiss], api.Attention]{
	Route: Route{Method: "POST", Path: "/v1/attention/dismiss", Changes: true, Answers: []Answer{{200, "the item, dismissed now or before"}}},
	Do: func(ctx context.Context, b api.Bridge, q With[api.Dismiss]) (api.Attention, error) {
		return b.Dismiss(ctx, q.Body.ID)
	},
}

// Find what keeps messages from arriving, and say what to do about it. Nothing is changed. Without team, checks that
// passed are listed too. The service looks at everything again, including the registered panes.
var Doctor = Op[InTeam, api.Report]{
	Route: Route{Method: "GET", Path: "/v1/doctor", Large: true, Answers: []Answer{{200, "what was found"}}, Errors: []int{404}},
	Do: func(ctx context.Context, b api.Bridge, q InTeam) (api.Report, error) {
		return b.Findings(ctx, q.Team, false)
	},
}

// Look as GET /v1/doctor does, and fix what blocks agents and belongs to nobody: files or directories in the place of
// a lock, temporary files of killed processes, and a state directory that others can read. Files in use stay. An
// inbox is never changed.
var Fix = Op[InTeam, api.Report]{
	Route: Route{Method: "POST", Path: "/v1/doctor/fix", Changes: true, Large: true, Answers: []Answer{{200, "what was found, and what of it is fixed"}}, Errors: []int{404}},
	Do: func(ctx context.Context, b api.Bridge, q InTeam) (api.Report, error) {
		return b.Findings(ctx, q.Team, true)
	},
}

// The requests of operations of teams.
type (
	TargetQuery struct {
		api.Scope
		Names []string `query:"name"` // MEMBER or MEMBER@TEAM; may be repeated
	}
	StatusQuery struct {
		OfTeam
		Members []string `query:"member"` // only this agent; may be repeated
	}
	JoinRequest struct {
		OfTeam
		With[api.NewJoin]
	}
	RenameRequest struct {
		OfMember
		With[api.NewName]
	}
	LeaveRequest struct {
		OfTeam
		With[api.Leave]
	}
)

package op

import (
	"context"

	"teambridge/status/api"
)

// List recorded messages of a team, including those that have left their inbox, and what its agents said and did. The team
// may have ended. Without after, or with before, these are the last messages, otherwise the first ones after that number;
// always in the order of seq, in which they were recorded. Show them in the order of firstSeen: one that was sent without a
// service is recorded later, and can have a larger seq than the answer to it.
var Messages = Op[MessagesQuery, api.Page]{
	Route: Route{Method: "GET", Path: "/v1/teams/{team}/messages", Who: Agents, Large: true, Answers: []Answer{{200, "messages"}}},
	Do: func(ctx context.Context, b api.Bridge, q MessagesQuery) (api.Page, error) {
		return b.Messages(ctx, q.Team, q.MessageQuery)
	},
}

// Get what was recorded of all teams, those that have ended included, the newest first. With q, it is searched for words in
// sender, summary or text: all must occur, "words in quotes" are a phrase, and word* is a prefix.
var History = Op[api.SearchQuery, api.Found]{
	Route: Route{Method: "GET", Path: "/v1/history", Who: Agents, Large: true, Answers: []Answer{{200, "what was recorded"}}},
	Do:    query(api.Bridge.History),
}

// Read what an agent received, said and did, oldest first: an envelope of the session protocol per line, as long as
// its transcript is there. If it cannot be read to its end, the last line is a LineError.
var Transcript = Op[TranscriptQuery, None]{
	Route: Route{Method: "GET", Path: "/v1/teams/{team}/members/{member}/transcript", Media: api.LinesType, Lasts: "read it again", Answers: []Answer{{200, "envelopes"}}},
}

// Read a session as that of a member is read.
var SessionTranscript = Op[SessionTranscriptQuery, None]{
	Route: Route{Method: "GET", Path: "/v1/transcripts/{session}", Media: api.LinesType, Lasts: "read it again", Answers: []Answer{{200, "envelopes"}}},
}

// List the files that an agent and its subagents have changed with their tools, as their transcripts say.
var Changes = Op[ChangesQuery, []api.FileChanges]{
	Route: Route{Method: "GET", Path: "/v1/teams/{team}/members/{member}/changes", Large: true, Answers: []Answer{{200, "files, the last changed first"}}, Errors: []int{404}},
	Do: func(ctx context.Context, b api.Bridge, q ChangesQuery) ([]api.FileChanges, error) {
		return b.Changes(ctx, q.Team, q.Member, q.ChangesQuery)
	},
}

// List the files that the agent of a session and its subagents have changed with their tools.
var SessionChanges = Op[SessionChangesQuery, []api.FileChanges]{
	Route: Route{Method: "GET", Path: "/v1/transcripts/{session}/changes", Large: true, Answers: []Answer{{200, "files, the last changed first"}}, Errors: []int{404}},
	Do: func(ctx context.Context, b api.Bridge, q SessionChangesQuery) ([]api.FileChanges, error) {
		return b.Changes(ctx, "", q.Session, q.ChangesQuery)
	},
}

// List the tasks of Claude Code's teams, and of its sessions in none, by list and then as Claude Code sorts them. With
// follow, the answer is a line of JSON with all of them, and another one each time that they have changed.
var Tasks = Op[TasksQuery, api.Tasks]{
	Route: Route{Method: "GET", Path: "/v1/tasks", Large: true, Media: api.LinesType, Answers: []Answer{{200, "tasks"}}},
	Do: func(ctx context.Context, b api.Bridge, q TasksQuery) (api.Tasks, error) {
		return b.Tasks(ctx, q.TaskQuery)
	},
}

// List how tasks have changed, the newest change first. It is recorded while a service runs: what changed while none did is
// between two times. Who made a change is not known.
var TaskHistory = Op[api.TaskHistoryQuery, api.TaskHistory]{
	Route: Route{Method: "GET", Path: "/v1/tasks/history", Answers: []Answer{{200, "changes"}}},
	Do:    query(api.Bridge.TaskHistory),
}

// Count the tokens that agents have used, and what that cost, as far as Claude Code says so.
var Usage = Op[api.UsageQuery, api.Usage]{
	Route: Route{Method: "GET", Path: "/v1/usage", Answers: []Answer{{200, "tokens and cost"}}},
	Do:    query(api.Bridge.Usage),
}

// Get a stream of server-sent events.
//
// Events: snapshot (Snapshot), first and after each change, followed by question (QuestionEvent) for each new
// question, and for each that is no longer open; message (MessageEvent), receipt (Receipt), relay (RelayEvent) and
// envelope (Envelope), in the order of the journal; reset (Reset), if events were pruned before they were sent, or
// the client's id is from another journal: the client must read everything again. Each event has an id: the name of
// an epoch of the journal, "-" and a seq. A client that sends it as Last-Event-ID, as browsers do, or as after,
// continues after it without a gap or a repeat. Every 15 s there is a comment. Browsers connect again 1 s after a
// stream broke. A client that reads nothing for 10 s is dropped, and may connect again.
var Events = Op[EventsQuery, None]{
	Route: Route{Method: "GET", Path: "/v1/events", Media: EventStream, Lasts: "connect again", Answers: []Answer{{200, "events"}}},
}

// The requests of operations of what is recorded.
type (
	MessagesQuery struct {
		OfTeam
		api.MessageQuery
	}
	TranscriptQuery struct {
		OfMember
		api.TranscriptQuery
	}
	SessionTranscriptQuery struct {
		OfSession
		api.TranscriptQuery
	}
	ChangesQuery struct {
		OfMember
		api.ChangesQuery
	}
	SessionChangesQuery struct {
		Session string `path:"session"` // the id of a session of Claude Code
		api.ChangesQuery
	}
	TasksQuery struct {
		api.TaskQuery
		Follow bool `query:"follow"` // go on with each change, as application/x-ndjson
	}
	EventsQuery struct {
		Team string `query:"team"` // only of teams with this name
		// start after this event: its id, or a seq such as that of a page of messages. A seq is accepted even if it is from a
		// journal that was lost. Default: start with the next event
		After string `query:"after"`
		Resume
	}
)

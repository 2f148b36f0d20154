package client

import (
	"context"
	"encoding/json"
	"iter"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

// history has the operations on recorded messages and on the work of agents.
type history struct{ *conn }

// The queries of [Client.Messages] and [Client.History].
type (
	MessageQuery = api.MessageQuery
	SearchQuery  = api.SearchQuery
)

// Messages returns recorded messages of a team; see [api.Bridge].
func (c history) Messages(ctx context.Context, team string, q MessageQuery) (api.Page, error) {
	return call(ctx, c.conn, &op.Messages, op.MessagesQuery{OfTeam: op.OfTeam{Team: team}, MessageQuery: q})
}

// History returns recorded messages, newest first; see [api.Bridge].
func (c history) History(ctx context.Context, q SearchQuery) (api.Found, error) {
	return call(ctx, c.conn, &op.History, q)
}

// Transcript yields an agent's conversation; see [api.Bridge].
func (c history) Transcript(ctx context.Context, team, who string, q api.TranscriptQuery) iter.Seq2[json.RawMessage, error] {
	if team == "" {
		return c.lines(ctx, &op.SessionTranscript.Route, op.SessionTranscriptQuery{OfSession: op.OfSession{Session: who}, TranscriptQuery: q})
	}
	return c.lines(ctx, &op.Transcript.Route, op.TranscriptQuery{OfMember: op.Of(team, who), TranscriptQuery: q})
}

// Changes returns the files that an agent has changed; see [api.Bridge].
func (c history) Changes(ctx context.Context, team, who string, q api.ChangesQuery) ([]api.FileChanges, error) {
	if team == "" {
		return call(ctx, c.conn, &op.SessionChanges, op.SessionChangesQuery{Session: who, ChangesQuery: q})
	}
	return call(ctx, c.conn, &op.Changes, op.ChangesQuery{OfMember: op.Of(team, who), ChangesQuery: q})
}

// Tasks returns tasks of Claude Code; see [api.Bridge].
func (c history) Tasks(ctx context.Context, q api.TaskQuery) (api.Tasks, error) {
	return call(ctx, c.conn, &op.Tasks, op.TasksQuery{TaskQuery: q})
}

// FollowTasks yields tasks as they change; see [api.Bridge].
func (c history) FollowTasks(ctx context.Context, q api.TaskQuery) iter.Seq2[api.Tasks, error] {
	return func(yield func(api.Tasks, error) bool) {
		for line, err := range c.lines(ctx, &op.Tasks.Route, op.TasksQuery{TaskQuery: q, Follow: true}) {
			var found api.Tasks
			if err == nil {
				err = json.Unmarshal(line, &found)
			}
			if !yield(found, err) || err != nil {
				return
			}
		}
	}
}

// TaskHistory returns the history of tasks; see [api.Bridge].
func (c history) TaskHistory(ctx context.Context, q api.TaskHistoryQuery) (api.TaskHistory, error) {
	return call(ctx, c.conn, &op.TaskHistory, q)
}

// Usage counts tokens and cost; see [api.Bridge].
func (c history) Usage(ctx context.Context, q api.UsageQuery) (api.Usage, error) {
	return call(ctx, c.conn, &op.Usage, q)
}

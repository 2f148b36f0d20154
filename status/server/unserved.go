package server

import (
	"context"
	"slices"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/teams"
)

// noService is why a relay that was added does not run while there is no service.
const noService = "no service runs"

// Attention returns what GET /v1/attention would answer, from the files, for while no
// service runs: of one team, or of all teams if the name is empty. The questions of agents
// are not known then.
func Attention(ctx context.Context, root *teams.Root, state string, l *ledger.Ledger, j *journal.Journal, team string) ([]api.Attention, error) {
	c := &statusCache{
		Server: &Server{opts: Options{Root: root, State: state}, ledger: l, idle: noService},
		source: status.Source{Journal: j, Ledger: l}, changed: newHub(),
	}
	var err error
	if c.seq, err = j.Last(ctx); err != nil {
		return nil, err
	}
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(c.current(team).Attention, func(a api.Attention) bool {
		return a.Kind == api.WaitsStopped && c.entries[a.Team] == nil // it waits for its team to be made
	})
	return list, nil
}

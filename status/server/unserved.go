package server

import (
	"context"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/teams"
)

// Why a relay that was added does not run, as far as anybody but the service knows.
const (
	NoService     = "no service runs"
	SilentService = "the service does not answer"
)

// Unserved tells what GET /v1/attention would answer, from the files, for while no service
// runs or answers. The questions of agents are not known then.
type Unserved struct{ cache *statusCache }

// NewUnserved returns an Unserved about one team, or about all teams if the name is empty.
// It reads a journal and a ledger, which others fill. idle is [NoService] or [SilentService].
func NewUnserved(ctx context.Context, root *teams.Root, state string, l *ledger.Ledger, j *journal.Journal, team, idle string) (*Unserved, error) {
	c := &statusCache{
		Server: &Server{opts: Options{Root: root, State: state}, ledger: l, idle: idle, panes: pane.New(pane.Options{Root: root, Ledger: l, State: state})},
		source: status.Source{Journal: j, Ledger: l}, only: team, changed: newHub(),
	}
	var err error
	c.seq, err = j.Last(ctx)
	return &Unserved{c}, err
}

// Attention returns what waits for a person now, the oldest first.
func (u *Unserved) Attention(ctx context.Context) ([]api.Attention, error) {
	c := u.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	return c.current(c.only).Attention, nil
}

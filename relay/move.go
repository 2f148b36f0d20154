package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/teams"
)

// ErrStays means that the session of a member cannot move: no launcher of it runs.
var ErrStays = errors.New("its session cannot move: no \"teambridge run --local\" of it runs")

// A RefusedError says why a session was not moved.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the session was not moved: " + e.Reason }

// Move is a wish that a session moves.
type Move struct {
	State  string // our state directory
	Ledger *ledger.Ledger
	Team   *teams.Team
	Config *teams.Config
	Member string
	To     ledger.Place
	Force  bool // whatever holds it: a turn is interrupted, and a draft that cannot be kept is given up
}

// Ask tells the launcher of the session what is wanted, and returns the number of the wish
// and where the session is. The number is 0 if it is there already. Ask fails with [ErrStays].
func (m *Move) Ask(ctx context.Context) (wish int64, h ledger.Handoff, err error) {
	if h, err = m.handoff(ctx); err != nil || h.At == m.To && h.To == "" && h.Wanted == "" {
		return 0, h, err
	}
	if wish, err = m.Ledger.Sessions.AskPlace(ctx, h.InboxKey, m.To, m.Force); errors.Is(err, ledger.ErrUnknown) {
		err = m.stays()
	}
	return wish, h, err
}

// handoff returns where the session is.
func (m *Move) handoff(ctx context.Context) (ledger.Handoff, error) {
	h, found, err := m.Ledger.Sessions.Handoff(ctx, inbox.KeyOf(m.Team, m.Config, m.Member))
	if err != nil {
		return h, err
	}
	running, err := Running(m.State, m.Team, m.Member)
	if err == nil && (!found || !running) {
		err = m.stays()
	}
	return h, err
}

func (m *Move) stays() error {
	return fmt.Errorf("%s@%s: %w", m.Member, m.Team.Name(), ErrStays)
}

// movePoll is how often a wish is looked at. A look takes 0.1 ms.
const movePoll = 100 * time.Millisecond

// Wait waits until a wish is granted. It calls held with each new reason why the session
// has not moved yet. It fails with *[RefusedError], with [ErrStays] if the launcher has
// ended, and with the cause of the end of ctx; the wish remains in all these cases but the
// first.
func (m *Move) Wait(ctx context.Context, wish int64, held func(reason string)) (ledger.Handoff, error) {
	tick := time.NewTicker(movePoll)
	defer tick.Stop()
	for last := ""; ; {
		h, err := m.handoff(ctx)
		switch {
		case ctx.Err() != nil:
			return h, context.Cause(ctx)
		case err != nil:
			return h, err
		case h.Answered > wish && h.At != m.To:
			return h, &RefusedError{"it was asked to be elsewhere meanwhile"}
		case h.Answered == wish && h.Refused != "":
			return h, &RefusedError{h.Refused}
		case h.Answered >= wish:
			return h, nil
		case h.Reason != "" && h.Reason != last:
			last = h.Reason
			held(last)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Withdraw takes a wish back, and reports whether it could: it may have been answered
// meanwhile.
func (m *Move) Withdraw(ctx context.Context, wish int64) (bool, error) {
	return m.Ledger.Sessions.WithdrawPlace(ctx, inbox.KeyOf(m.Team, m.Config, m.Member), wish)
}

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

// ErrStays means that the session of a member cannot move, because no launcher runs it.
var ErrStays = errors.New("its session cannot move: no \"teambridge run --local\" of it runs")

// RefusedError is the reason why a session was not moved.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the session was not moved: " + e.Reason }

// Move is a request to move a session between a terminal and its relay.
type Move struct {
	State  string // our state directory
	Ledger *ledger.Ledger
	Team   *teams.Team
	Config *teams.Config
	Member string
	To     ledger.Place
	Force  bool // move at once: interrupt a running turn, and lose a draft that cannot be kept
}

// Ask submits the request to the launcher of the session, and returns the request's number and where the
// session is now. The number is 0 if the session is already there. Without a launcher Ask fails with
// [ErrStays].
func (m *Move) Ask(ctx context.Context) (wish int64, h ledger.Handoff, err error) {
	if h, err = m.handoff(ctx); err != nil || h.At == m.To && h.To == "" && h.Wanted == "" {
		return 0, h, err
	}
	if wish, err = m.Ledger.Sessions.AskPlace(ctx, h.InboxKey, m.To, m.Force); errors.Is(err, ledger.ErrUnknown) {
		err = m.stays()
	}
	return wish, h, err
}

// handoff returns the current place of the session.
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

// movePoll is how often a request is checked. A check takes 0.1 ms.
const movePoll = 100 * time.Millisecond

// Wait waits until a request is granted. It calls held with each new reason for the delay. It fails with a
// *[RefusedError]; with [ErrStays] if the launcher has ended; or with the cause of ctx's end. After the last two
// errors, the request stays open.
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

// Withdraw cancels a request, and reports whether it could: it may have been answered already.
func (m *Move) Withdraw(ctx context.Context, wish int64) (bool, error) {
	return m.Ledger.Sessions.WithdrawPlace(ctx, inbox.KeyOf(m.Team, m.Config, m.Member), wish)
}

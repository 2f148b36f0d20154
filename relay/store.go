package relay

import (
	"context"
	"errors"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/claim"
)

// store is the part of a [ledger.Ledger] that the loop needs. Tests make its calls fail.
type store interface {
	// For claiming. None of these is called while the lock of the inbox is held.
	claim.Ledger
	Unmarked(context.Context, inbox.InboxKey) ([]ledger.Delivery, error)
	Missing(ctx context.Context, p inbox.InboxKey, uuids ...string) (missing []string, err error)
	Claim(context.Context, ...ledger.Delivery) error
	Held(context.Context, inbox.InboxKey) ([]ledger.Hold, error)
	Hold(context.Context, ...ledger.Hold) error
	Answered(ctx context.Context, p inbox.InboxKey, recipients ...string) error
	StandIns(ctx context.Context, root string) ([]ledger.StandIn, error)
	Joins(ctx context.Context, root, team string, createdAt int64) ([]ledger.Join, error)
	Exchanges(ctx context.Context, p inbox.InboxKey, sender string, people []string, now time.Time, quiet time.Duration, back int) (ledger.Exchanges, error)
	Mark(ctx context.Context, uuids ...string) error

	Session(context.Context, inbox.InboxKey) (ledger.Session, bool, error)
	SetSession(context.Context, ledger.Session) error
	OpenCount(context.Context, inbox.InboxKey) (int, error)
	Waiting(context.Context, inbox.InboxKey) ([]ledger.Delivery, error)
	End(ctx context.Context, state ledger.DeliveryState, reason string, deliveries ...string) error

	InFlight(context.Context, inbox.InboxKey) (ledger.Frame, bool, error)
	Frame(ctx context.Context, uuid string) (ledger.Frame, bool, error)
	Commit(ctx context.Context, f ledger.Frame, deliveries ...string) error
	Tried(ctx context.Context, uuid, session string) error
	Died(ctx context.Context, uuid string) (ledger.Frame, error)
	Split(ctx context.Context, uuid, reason string) (bool, error)
	Advance(ctx context.Context, uuid string, state ledger.DeliveryState, reason string) error
	Finish(ctx context.Context, uuid string, state ledger.DeliveryState, reason, answer string) error
}

// storeOf returns what the loop needs of a ledger.
func storeOf(l *ledger.Ledger) store {
	return struct {
		ledger.Deliveries
		ledger.Frames
		ledger.Sessions
		ledger.Holds
		ledger.Teams
		ledger.Links
	}{l.Deliveries, l.Frames, l.Sessions, l.Holds, l.Teams, l.Links}
}

// lastTries is how long [ledgerWriter.insist] keeps trying once the relay is ending. The next relay finds unrecorded
// events in the transcript.
const lastTries = 10 * time.Second

// ledgerWriter records events that have already happened.
type ledgerWriter struct {
	*Relay
	ledgerErr string // why the ledger is unusable now; empty if it works
	ending    bool   // the relay is ending: on request, or because it has failed
}

// insist retries a ledger call for as long as the ledger is locked or its disk is full. It is for events that
// have already happened, such as an acknowledgement: nothing else can be done before these are recorded. The
// end of the relay does not cancel the call; it only limits the retries to [lastTries].
func (l *ledgerWriter) insist(ctx context.Context, call func(context.Context) error) error {
	ended := ctx.Done()
	ctx = context.WithoutCancel(ctx)
	var last <-chan time.Time
	if l.ending {
		last = time.After(lastTries)
	}
	for {
		err := call(ctx)
		if !temporary(err) {
			if err == nil {
				l.ledgerErr = ""
			}
			return err
		}
		l.ledgerFails(err)
		l.set(func(s *Status) { s.Reason = err.Error() })
		l.at(stuck)
		select {
		case <-time.After(l.opts.Timing.Retry):
		case <-ended:
			ended, last = nil, time.After(lastTries)
		case <-last:
			return err
		}
	}
}

// advance records a frame's new state.
func (l *ledgerWriter) advance(ctx context.Context, frame string, state ledger.DeliveryState, reason string) error {
	return l.insist(ctx, func(ctx context.Context) error { return l.ledger.Advance(ctx, frame, state, reason) })
}

// ledgerFails warns that the ledger cannot be used, once per outage.
func (l *ledgerWriter) ledgerFails(err error) {
	if l.ledgerErr == "" {
		l.opts.Warn(err)
	}
	l.ledgerErr = err.Error()
}

// temporary reports whether err means that the ledger is locked or its disk full.
func temporary(err error) bool {
	return errors.Is(err, ledger.ErrBusy) || errors.Is(err, ledger.ErrFull)
}

// fatal reports whether err is a ledger error that is not [temporary].
func fatal(err error) bool {
	_, ok := errors.AsType[*ledger.Error](err)
	return !temporary(err) && (ok || errors.Is(err, ledger.ErrClosed))
}

// setSession records the session and the state of the relay.
func (l *ledgerWriter) setSession(ctx context.Context, s ledger.Session) error {
	err := l.insist(ctx, func(ctx context.Context) error { return l.ledger.SetSession(ctx, s) })
	if err == nil {
		l.opts.Recorded()
	}
	return err
}

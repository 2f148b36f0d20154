package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Held are the locks that make this process the only one that relays an inbox: one in the state directory and, on
// Linux, one for all state directories.
type Held struct{ release func() error }

// Release lets others relay the inbox.
func (h *Held) Release() error { return h.release() }

// Hold takes what [Relay.Run] takes, for a process that keeps the inbox also while it relays nothing. It waits for
// another relay up to handover, then the error is [ErrBusy].
func Hold(ctx context.Context, state string, t *teams.Team, member string, handover time.Duration) (*Held, error) {
	return hold(ctx, state, t, member, handover, func() {})
}

// hold is [Relay.Run]'s. It returns nil without an error when ctx ends.
func (r *Relay) hold(ctx context.Context) (*Held, error) {
	h, err := hold(ctx, r.opts.State, r.opts.Team, r.opts.Member, r.opts.Timing.Handover, func() {
		r.set(func(s *Status) { s.State, s.Reason = Waiting, ErrBusy.Error() })
	})
	if err != nil && ctx.Err() != nil {
		return nil, nil
	}
	return h, err
}

// hold calls waiting if it has to wait.
func hold(ctx context.Context, state string, t *teams.Team, member string, handover time.Duration, waiting func()) (*Held, error) {
	dir, key := lockOf(state, t.InboxFile(member))
	// within takes a lock, and waits up to handover for it.
	within := func(take func(time.Duration) (func() error, error)) (func() error, error) {
		release, err := take(0)
		if !errors.Is(err, lockedfile.ErrLocked) {
			return release, err
		}
		waiting()
		release, err = take(handover)
		locked, ok := errors.AsType[*lockedfile.LockedError](err)
		if !ok {
			return release, err
		}
		by := ""
		if locked.PID != 0 { // only where it has another state directory
			by = fmt.Sprintf(" (process %d, with another state directory)", locked.PID)
		}
		return nil, fmt.Errorf("relay: %s@%s: %w%s", member, t.Name(), ErrBusy, by)
	}
	first, err := within(func(d time.Duration) (func() error, error) { return lockedfile.HoldWithin(ctx, d, dir, key) })
	if err != nil {
		return nil, err
	}
	second, err := within(func(d time.Duration) (func() error, error) { return lockedfile.HoldName(ctx, d, key) })
	if errors.Is(err, errors.ErrUnsupported) {
		return &Held{first}, nil
	} else if err != nil {
		return nil, errors.Join(err, first())
	}
	return &Held{func() error { return errors.Join(second(), first()) }}, nil
}

package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Held holds the locks that make this process the only relay of an inbox: one in the state directory and, on
// Linux, one for all state directories.
type Held struct{ release func() error }

// Release unlocks the inbox for other relays.
func (h *Held) Release() error { return h.release() }

// Hold takes the locks that [Relay.Run] takes, for a process that keeps an inbox even while it relays
// nothing. It waits up to handover for another relay; then it fails with [ErrBusy].
func Hold(ctx context.Context, state string, t *teams.Team, member string, handover time.Duration) (*Held, error) {
	return hold(ctx, state, t, member, handover, func() {})
}

// hold takes the locks for [Relay.Run]. It returns nil without an error when ctx ends.
func (r *Relay) hold(ctx context.Context) (*Held, error) {
	h, err := hold(ctx, r.opts.State, r.opts.Team, r.opts.Member, r.opts.Timing.Handover, func() {
		r.set(func(s *Status) { s.State, s.Reason = Waiting, ErrBusy.Error() })
	})
	if err != nil && ctx.Err() != nil {
		return nil, nil
	}
	return h, err
}

// hold calls waiting before it waits for a lock.
func hold(ctx context.Context, state string, t *teams.Team, member string, handover time.Duration, waiting func()) (*Held, error) {
	dir, key := lockOf(state, t.InboxFile(member))
	// within takes a lock, waiting up to handover.
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
		if locked.PID != 0 { // set only if the holder has another state directory
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

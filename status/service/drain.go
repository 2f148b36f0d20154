package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/link"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/teams/lockedfile"
)

// Drain waits until the hub has all messages to other machines, including those in the inboxes of stand-ins, or ctx
// ends. With a timeout of 0, it waits only for ctx. The error is [api.CodeTimeout] if messages still wait after the timeout, and [api.CodeRefused] if another
// process has the identity of this machine, or runs its links.
func (s *Service) Drain(running, ctx context.Context, timeout time.Duration) error {
	over := make(<-chan time.Time)
	if timeout > 0 {
		over = time.After(timeout)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-running.Done():
			return context.Cause(running)
		case <-ctx.Done():
			return nil
		case <-over:
			links, err := s.Links(context.WithoutCancel(ctx))
			if err != nil {
				return err
			}
			n := 0
			for _, m := range links.Machines {
				n += m.Queued
			}
			return api.Decide(api.CodeTimeout, "they stay in the outbox", "still in the outbox after %s: %s; the hub is %s: %s", timeout, plain.Plural(n, "message"), links.State, links.Reason)
		case <-tick.C:
		}
		ready, why := s.links.Failed()
		if errors.Is(why, lockedfile.ErrLocked) || errors.Is(why, link.ErrTwin) {
			return api.Decide(api.CodeRefused, "end it first", "%v", why)
		}
		list, err := s.Linked(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if timeout > 0 && ready && !slices.ContainsFunc(list, func(m ledger.Machine) bool { return m.Queued > 0 }) {
			return nil
		}
	}
}

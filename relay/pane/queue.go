package pane

import (
	"cmp"
	"context"
	"errors"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
)

// work delivers the messages in the queue of a pane that can be delivered now, in order, and
// returns when to look again; zero if nothing is left to do. One process at a time works for a
// pane: the error is [ErrBusy] if another one does, even after timing.every if wait is true.
func (q *Queue) work(ctx context.Context, k inbox.InboxKey, wait bool) (next time.Time, err error) {
	record, found, err := q.opts.Ledger.Panes.Pane(ctx, k)
	if err != nil || !found {
		return time.Time{}, err
	}
	of := paneOf(record)
	d := time.Duration(1)
	if wait {
		d = q.timing.every
	}
	release, err := q.lock(ctx, of, d)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if of.IsSession() { // messages that were lost with an ended process go first
		messages, err := q.opts.Ledger.PaneMessages.List(ctx, k)
		if err == nil {
			err = q.tasks.follow(ctx, of, messages)
		}
		if err != nil {
			return time.Time{}, err
		}
	}
	free := false // the last message was sent, so the others need not wait for their next try
	for ctx.Err() == nil {
		// It may have been replaced or removed before the lock was taken.
		now, found, err := q.opts.Ledger.Panes.Pane(ctx, k)
		if err != nil || !found || paneOf(now).Ref != of.Ref && !of.IsSession() {
			return time.Time{}, err
		}
		of = paneOf(now)
		messages, err := q.opts.Ledger.PaneMessages.List(ctx, k)
		if err != nil {
			return time.Time{}, err
		}
		expired, err := q.expire(ctx, messages)
		if err != nil {
			return time.Time{}, err
		}
		if expired {
			continue
		}
		m, due := nextOf(messages)
		if due.IsZero() || time.Now().Before(due) && !free {
			return due, nil
		}
		if err := q.carrier.carry(ctx, of, m); err != nil {
			return time.Time{}, err
		}
		if m, err = q.Message(ctx, m.UUID); err != nil {
			return time.Time{}, err
		}
		free = m.State == ledger.Done
	}
	return time.Time{}, ctx.Err()
}

// nextOf returns the message to send or continue next, and its time; zero if there is none. A message
// that waits for the agent to be idle does not hold up messages that a busy agent may get.
func nextOf(messages []ledger.PaneMessage) (next ledger.PaneMessage, due time.Time) {
	for _, m := range messages {
		if m.State.Ended() {
			continue // only its task is open
		}
		at := m.NextTry
		if at.IsZero() {
			at = m.Since
		}
		if time.Until(at) > usual.maxTry { // the clock was set back
			at = time.Now()
		}
		if due.IsZero() || at.Before(due) {
			next, due = m, at
		}
		if m.State != ledger.Claimed || m.Policy != string(tmux.WhenIdle) || m.Held != string(tmux.Busy) {
			break
		}
	}
	return next, due
}

// expire ends the messages that have waited for too long. It reports whether there were any.
func (q *Queue) expire(ctx context.Context, messages []ledger.PaneMessage) (expired bool, err error) {
	for _, m := range messages {
		if !q.expired(m) {
			continue
		}
		err := q.end(ctx, m, ledger.Failed, ledger.CauseNotSent.Reason(cmp.Or(m.Detail, "nothing ran the queue of the pane")+" (for "+q.Expiry(m).String()+")"))
		if err := ignoreMoved(err, m.UUID); err != nil {
			return false, err
		}
		expired = true
	}
	return expired, nil
}

// expired reports whether a message has waited for too long.
func (q *Queue) expired(m ledger.PaneMessage) bool {
	return m.State == ledger.Claimed && time.Since(m.Since) >= q.Expiry(m)
}

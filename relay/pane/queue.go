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

// work does what can be done for the queue of a pane now, in its order, and returns when to
// look again; zero: there is nothing to do. One process at a time works for a pane: the error
// is [ErrBusy] if another one does, unless wait is true.
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
	if of.IsSession() { // what a process has lost that has ended goes first
		messages, err := q.opts.Ledger.PaneMessages.List(ctx, k)
		if err == nil {
			err = q.tasks.follow(ctx, of, messages)
		}
		if err != nil {
			return time.Time{}, err
		}
	}
	free := false // the last message was sent: what held the others is over
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

// nextOf returns the message that is to be sent next, or continued, and when; a zero time if
// there is none. A message for an idle agent does not hold up those that a busy one may get.
func nextOf(messages []ledger.PaneMessage) (next ledger.PaneMessage, due time.Time) {
	for _, m := range messages {
		if m.State.Ended() {
			continue // its task has not
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

package pane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
	"teambridge/teams/transcript"
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
		if err := q.carrier.send(ctx, of, m); err != nil {
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

// ignoreMoved leaves out the error of a step with a message that another process has dropped
// or removed since it was read. The step changed nothing.
func ignoreMoved(err error, uuids ...string) error {
	state, ok := errors.AsType[*ledger.StateError](err)
	if errors.Is(err, ledger.ErrUnknown) || ok && slices.Contains(uuids, state.UUID) {
		return nil
	}
	return err
}

// send sends one message, or continues with it, and records the outcome.
func (c *carrier) send(ctx context.Context, of Pane, m ledger.PaneMessage) error {
	if of.IsSession() {
		return c.sendToSession(ctx, of, m)
	}
	// What was pasted is followed to its end, for a while.
	var pasted atomic.Bool
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if pasted.Load() {
			time.AfterFunc(c.timing.finish, cancel)
		} else {
			cancel()
		}
	})
	defer stop()
	proof := c.transcripts.proof(of, m)
	frame := m.Frame
	steps := tmux.Steps{
		Pasting: func(context.Context) error {
			line, err := json.Marshal(typed(m).Line())
			if err != nil {
				return err
			}
			id := uuid.NewString()
			pasted.Store(true)
			if err := ctx.Err(); err != nil {
				return err
			}
			err = c.opts.Ledger.PaneMessages.PasteFrame(ctx, ledger.Frame{
				UUID: id, InboxKey: m.InboxKey, Kind: ledger.FrameCommand, Bytes: line, State: ledger.FrameWritten, At: time.Now(),
			}, m.UUID)
			if err != nil {
				return err
			}
			frame = id
			c.changed(m.InboxKey)
			return nil
		},
		Entered: func(ctx context.Context) error {
			if err := c.opts.Ledger.Frames.Advance(ctx, frame, ledger.Accepted, ""); err != nil {
				return err
			}
			c.changed(m.InboxKey)
			return nil
		},
		Submitted: func(ctx context.Context) (bool, error) { return proof.holds(ctx), nil },
	}
	var out tmux.Outcome
	var err error
	agent := c.views.agent(of)
	old := CheckVersion(agent, "it")
	switch {
	case m.Frame != "" && old != nil: // the text may be at the prompt, where Enter would give it to the agent
		out = tmux.Outcome{State: tmux.Unconfirmed, Reason: tmux.Outdated}
		if out.Detail = old.Error(); proof.holds(sending) {
			out = tmux.Outcome{State: tmux.Confirmed, Basis: tmux.ByTranscript}
		}
	case m.Frame != "":
		pasted.Store(true)
		out, err = c.tmux.resume(sending, of.Ref, of.Profile, typed(m), m.State == ledger.Accepted, steps)
	case !m.SentAt.IsZero() && proof.holds(sending) && !proof.altered(sending):
		// A person tries it again, and the first time it was taken after all.
		return c.queue.end(ctx, m, ledger.Done, "the transcript has it")
	case old != nil:
		out = tmux.Outcome{State: tmux.NotSent, Reason: tmux.Outdated, Detail: old.Error()}
	case agent.Status == transcript.ProcessWaiting:
		// The program says so up to 0.3 s before the dialog is on the screen.
		out = tmux.Outcome{State: tmux.NotSent, Reason: tmux.Dialog, Detail: "the agent asks something"}
	default:
		out, err = c.tmux.send(sending, of.Ref, of.Profile, typed(m), steps)
	}
	// The outcome is recorded even if ctx has ended.
	keep := context.WithoutCancel(ctx)
	err = errors.Join(ignoreMoved(err, m.UUID), c.record(keep, of, m, frame, out, err, proof))
	c.changed(m.InboxKey)
	return err
}

// record records the outcome of a try. frame is "" if nothing was about to be pasted.
func (c *carrier) record(ctx context.Context, of Pane, m ledger.PaneMessage, frame string, out tmux.Outcome, failed error, proof *proof) error {
	l := c.opts.Ledger
	detail := cmp.Or(out.Detail, string(out.Reason))
	if failed != nil {
		detail = cmp.Or(out.Detail, failed.Error())
	}
	if out.Reason == "" && (errors.Is(failed, context.Canceled) || errors.Is(failed, context.DeadlineExceeded)) {
		out.Reason, detail = tmux.Reason(m.Held), cmp.Or(m.Detail, detail) // a look that was cut off says nothing new
	}
	switch {
	case out.State == tmux.Confirmed && proof.altered(ctx):
		return ignoreMoved(l.PaneMessages.FailFrame(ctx, frame, Altered, ledger.TaskNone), frame)
	case out.State == tmux.Confirmed:
		return ignoreMoved(c.confirm(ctx, of, frame, out, proof), frame)
	case out.State == tmux.NotSent && m.Frame == "":
		if frame != "" {
			if err := l.PaneMessages.ReturnFrame(ctx, frame, detail); err != nil {
				return ignoreMoved(err, frame)
			}
		}
		return l.PaneMessages.Hold(ctx, m.UUID, string(cmp.Or(out.Reason, tmux.Unknown)), detail, c.nextTry(m))
	case time.Since(cmp.Or(m.SentAt, time.Now())) < c.patience(m, out, failed):
		return l.PaneMessages.Hold(ctx, m.UUID, string(cmp.Or(out.Reason, tmux.Unknown)), detail, c.nextTry(m))
	}
	task := ledger.TaskNone
	if out.Reason == tmux.NotProven && of.Profile == tmux.Generic && m.Notify {
		task = ledger.TaskStaged // nothing ever proves anything there, but a hook may tell
	}
	return ignoreMoved(l.PaneMessages.FailFrame(ctx, frame, ledger.CauseUnknown.Reason(detail), task), frame)
}

// patience returns for how long after the paste more may become known of a message.
func (c *carrier) patience(m ledger.PaneMessage, out tmux.Outcome, failed error) time.Duration {
	switch out.Reason {
	case tmux.Outdated, tmux.Stuck, tmux.InMode, tmux.InputOff, tmux.Synchronized, tmux.Dialog, tmux.Unknown:
		return c.timing.expire
	case tmux.NotShown:
		if m.Frame != "" { // it was pasted by another process, and its transcript may lag behind
			return c.timing.lag
		}
	}
	if failed != nil {
		return c.timing.expire
	}
	return 0
}

func (c *carrier) nextTry(m ledger.PaneMessage) time.Time {
	wait := c.timing.maxTry
	if m.Tries < 16 {
		wait = min(c.timing.firstTry<<m.Tries, wait)
	}
	return time.Now().Add(wait)
}

// confirm records that the program has taken a message, and begins its task.
func (c *carrier) confirm(ctx context.Context, of Pane, frame string, out tmux.Outcome, proof *proof) error {
	task, path := ledger.TaskArmed, ""
	found, there := proof.find(ctx)
	switch {
	case there && found.given:
		task, path = ledger.TaskGiven, found.path
	case there:
		task, path = ledger.TaskSent, found.path
	case out.Busy || of.Profile != tmux.Claude:
		task = ledger.TaskStaged // late rather than early, where it cannot be known
	}
	return c.opts.Ledger.PaneMessages.ConfirmFrame(ctx, frame, "", task, path)
}

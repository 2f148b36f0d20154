package pane

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
)

// Nonce identifies a message in the text that is typed, and so on screens and in transcripts:
// by the first 12 hexadecimal digits of the uuid of its delivery.
func Nonce(uuid string) string {
	digits := strings.ReplaceAll(uuid, "-", "")
	return digits[:min(12, len(digits))]
}

// typed returns the input for tmux that types a message.
func typed(m ledger.PaneMessage) tmux.Input {
	return tmux.Input{
		Nonce: Nonce(m.UUID), From: m.From, Text: string(m.Raw), Policy: tmux.Policy(m.Policy), SaveDraft: m.SaveDraft,
	}
}

// Put records a message for a pane, durably, and returns its record; again is true if the
// same message was put before. The errors are those of
// [Check], [Views.Outdated] and [ledger.PaneMessages.Add]: [ledger.ErrConflict] if the id
// belongs to another message.
func (q *Queue) Put(ctx context.Context, to Pane, m Message) (_ ledger.PaneMessage, again bool, err error) {
	if err := Check(to, m); err != nil {
		return ledger.PaneMessage{}, false, err
	}
	if to.IsSession() {
		if to, err = q.sessions.record(ctx, to); err != nil {
			return ledger.PaneMessage{}, false, err
		}
	}
	record := ledger.PaneMessage{
		Delivery: ledger.Delivery{
			UUID: uuid.NewString(), InboxKey: to.InboxKey, ID: m.ID, From: m.From, Kind: "message", Summary: m.Summary,
			Raw: []byte(m.Text), Person: true, Isolated: true, At: time.Now(),
		},
		Policy: string(cmp.Or(m.Policy, tmux.Queued)), SaveDraft: m.SaveDraft, Notify: m.Notify, NotifyTo: m.NotifyTo,
	}
	known := false // it was put before, perhaps when another version of the program ran
	if m.ID == "" {
		record.ID = record.UUID
	} else {
		record.UUID = ledger.DeriveID(ledger.PaneIDs, "pane", to.Identity(), m.ID)
		if _, known, err = q.opts.Ledger.PaneMessages.Message(ctx, record.UUID); err != nil {
			return ledger.PaneMessage{}, false, err
		}
	}
	if !known {
		if err := q.views.Outdated(ctx, to); err != nil {
			return ledger.PaneMessage{}, false, err
		}
	}
	plain := inbox.Message{From: m.From, Text: m.Text, Summary: m.Summary}
	digest := sha256.Sum256(fmt.Appendf(nil, "%x %s %t %t %+v", plain.Digest(), record.Policy, m.SaveDraft, m.Notify, m.NotifyTo))
	record, again, err = q.opts.Ledger.PaneMessages.Add(ctx, record, digest)
	if err != nil {
		return ledger.PaneMessage{}, false, err
	}
	q.changed(to.InboxKey)
	q.Poke()
	return record, again, nil
}

// Message returns the record of a message, by the uuid of its delivery. [ErrUnknown].
func (q *Queue) Message(ctx context.Context, uuid string) (ledger.PaneMessage, error) {
	m, found, err := q.opts.Ledger.PaneMessages.Message(ctx, uuid)
	if err == nil && !found {
		err = fmt.Errorf("pane: message %s: %w", uuid, ErrUnknown)
	}
	return m, err
}

// Waits says in one sentence what holds a message, or what holds the message before it.
func (q *Queue) Waits(ctx context.Context, m ledger.PaneMessage) (why string, err error) {
	if why = cmp.Or(m.Detail, m.Held); why != "" {
		return why, nil
	}
	all, err := q.opts.Ledger.PaneMessages.List(ctx, m.InboxKey)
	for _, other := range all {
		if other.State.Ended() || other.UUID == m.UUID {
			continue
		}
		return "another message is before it" + because(cmp.Or(other.Detail, other.Held)), nil
	}
	return "it is its turn", err
}

// Expiry is how long a message waits before it has failed as not sent.
func (q *Queue) Expiry(m ledger.PaneMessage) time.Duration {
	if m.Team == SessionTeam {
		return SessionExpire
	}
	return q.timing.expire
}

// Await waits until a message is done, failed or dropped. It also returns if the message waits
// until somebody resumes a session that has ended. Await delivers nothing: a service must run
// the queue. If ctx ends first, Await returns the record as it is, and the error of ctx.
func (q *Queue) Await(ctx context.Context, uuid string) (ledger.PaneMessage, error) {
	return q.until(ctx, uuid, func(m ledger.PaneMessage) (bool, error) {
		if m.State.Ended() || m.Team != SessionTeam {
			return m.State.Ended(), nil
		}
		all, err := q.opts.Ledger.PaneMessages.List(ctx, m.InboxKey)
		return slices.ContainsFunc(all, func(of ledger.PaneMessage) bool { return !of.State.Ended() && of.Held == string(tmux.Gone) }), err
	})
}

// until reads the record of a message at intervals until done reports true.
func (q *Queue) until(ctx context.Context, uuid string, done func(ledger.PaneMessage) (bool, error)) (ledger.PaneMessage, error) {
	tick := time.NewTicker(q.timing.look)
	defer tick.Stop()
	for {
		// The record is wanted even if ctx has ended.
		m, err := q.Message(context.WithoutCancel(ctx), uuid)
		if err != nil {
			return m, err
		}
		if ok, err := done(m); ok || err != nil {
			return m, err
		}
		select {
		case <-ctx.Done():
			return m, ctx.Err()
		case <-tick.C:
		}
	}
}

// Deliver runs the queue of a message's pane until the message is done, failed or dropped.
// If ctx ends before anything was sent, the message fails as not sent, so that the agent does
// not get it unexpectedly later. The error is nil in that case.
func (q *Queue) Deliver(ctx context.Context, uuid string) (_ ledger.PaneMessage, err error) {
	end := q.incoming.use()
	defer func() { err = errors.Join(err, end()) }()
	for keep := context.WithoutCancel(ctx); ; {
		m, err := q.Message(keep, uuid)
		if err == nil && m.Notify && m.Task.Open() {
			err = q.tasks.followOne(ctx, m) // its turn may have ended, and the hook been called, before it was confirmed
			return m, err
		}
		if err != nil || m.State.Ended() {
			return m, err
		}
		if ctx.Err() != nil {
			return q.abandon(keep, uuid)
		}
		next, err := q.work(ctx, m.InboxKey, true)
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrBusy) {
			m, aerr := q.abandon(keep, uuid)
			return m, errors.Join(err, aerr)
		}
		// Another process may work for the pane, or send something more urgent.
		select {
		case <-ctx.Done():
		case <-time.After(min(max(time.Until(next), 0), q.timing.every)):
		}
	}
}

// abandon ends a message whose Deliver gives up, unless another process is delivering
// the message.
func (q *Queue) abandon(ctx context.Context, uuid string) (ledger.PaneMessage, error) {
	m, err := q.Message(ctx, uuid)
	switch {
	case err != nil:
	case m.State == ledger.Claimed:
		err = q.end(ctx, m, ledger.Failed, ledger.CauseNotSent.Reason(cmp.Or(m.Detail, "it was not its turn in time")))
	case !m.State.Ended():
		if record, found, lerr := q.opts.Ledger.Panes.Pane(ctx, m.InboxKey); lerr != nil || !found {
			err = lerr
		} else if release, lerr := q.lock(ctx, paneOf(record), 1); lerr == nil {
			err = errors.Join(q.opts.Ledger.Frames.Advance(ctx, m.Frame, ledger.Failed, ledger.CauseUnknown.Reason(cmp.Or(m.Detail, brokenOff(m)))), release())
			q.changed(m.InboxKey)
		} else if !errors.Is(lerr, ErrBusy) {
			err = lerr
		}
	}
	if _, moved := errors.AsType[*ledger.StateError](err); moved {
		err = nil // it has just been sent, or dropped
	}
	if err != nil {
		return m, err
	}
	return q.Message(ctx, uuid)
}

// brokenOff describes a message whose delivery was broken off, for people.
func brokenOff(m ledger.PaneMessage) string {
	if m.Policy == string(ByQueue) {
		return "it may be in Codex's queue"
	}
	return "its delivery was broken off"
}

// end ends a message that is in no frame.
func (q *Queue) end(ctx context.Context, m ledger.PaneMessage, state ledger.DeliveryState, reason string) error {
	err := q.opts.Ledger.Deliveries.End(ctx, state, reason, m.UUID)
	if err == nil {
		q.changed(m.InboxKey)
	}
	return err
}

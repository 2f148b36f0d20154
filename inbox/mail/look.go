package mail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/teams"
)

// Look decides the fate of a message from a later reading of its inbox. The first rule that applies decides:
//
//   - Its row is marked as read: consumed.
//   - A relay claimed it: consumed, or lost with the relay's reason if it failed.
//   - It was sent before as a user prompt: unconsumed until a turn begins with it, and then as if a relay claimed it.
//   - It is gone, and an unread row from ahead of it is still there, and according to the journal never
//     left: lost.
//   - It is gone, and the agent is older than [teams.Oldest], or not running, or its version is unknown and
//     its inbox had rows marked as read: unknown.
//   - Its inbox is missing, empty or corrupt, or its team is gone: unknown.
//   - It is gone, and an earlier check found it lost or unknown: unknown.
//   - It is gone in any other case: consumed.
//   - It was sent before, is not there, and its departure was not recorded: unknown.
//
// A message that the agent's conversation shows is consumed, whatever the rules say. If its fate is not known yet, or
// seen is nil, it is unconsumed. The error of a lost message wraps [inbox.ErrLost], and the error of an unknown one
// [inbox.ErrUnclear]; both can then be sent again by force. Look writes to no inbox: see [inbox.Tracked.Look].
func (s *Sender) Look(ctx context.Context, d Delivered, seen *inbox.Seen) (inbox.Fate, error) {
	if seen == nil {
		return inbox.Unconsumed, nil
	}
	if d.Tracked != nil && d.Tracked.In(seen) {
		return d.Tracked.Look(seen, false), nil
	}
	fate, err := s.relayed(ctx, d)
	if fate != "" || err != nil {
		return fate, err
	}
	switch {
	case d.Tracked == nil && !d.Deduplicated:
		return inbox.Unconsumed, nil // not tracked
	case d.Tracked == nil:
		fate, err = s.recorded(ctx, d, seen)
	default:
		keeps := s.keeps(ctx, d.Member, d.Tracked.Kept || inbox.Kept(seen.Rows))
		if fate = d.Tracked.Look(seen, keeps); fate == inbox.Lost && s.broughtBack(ctx, d, seen) {
			without := *d.Tracked
			without.Ahead = nil
			fate = without.Look(seen, keeps)
		}
		if fate == inbox.Consumed {
			if fate, err = s.doubted(ctx, d); fate == inbox.Unconsumed {
				return fate, err
			}
		}
	}
	if err == nil && fate != inbox.Consumed {
		if at, err := s.seenNow(ctx, &d); err == nil && !at.IsZero() {
			fate = inbox.Consumed
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return inbox.Unconsumed, context.Cause(ctx)
	case errors.Is(err, journal.ErrBusy):
		return inbox.Unconsumed, nil
	case err != nil:
		fate = inbox.Unknown // an unreadable journal proves nothing
	}
	return fate, s.explain(ctx, d, fate, seen.Fault)
}

// keeps reports whether an agent may leave rows in its inbox: taken rows, or all rows because it is not running.
// marked means that it has marked rows there.
//
// This is checked after the row was found gone. An agent that is running now may have taken the row. An agent that is
// not running may have taken it before it ended, or another program has removed it.
func (s *Sender) keeps(ctx context.Context, member string, marked bool) bool {
	// After a resume, config.json still names the earlier process.
	if now, err := s.opts.Team.Config(ctx); err == nil && s.opts.Team.AgentState(now, member, time.Now()) == teams.Gone {
		return true
	}
	return s.opts.Team.Agent(s.config, member).MayKeepRows(marked)
}

// doubted returns the fate of a message that seems to be consumed. The fate is unknown if an earlier check could not
// decide it, since the evidence may be gone: a corrupt inbox was replaced, or the agent runs again.
func (s *Sender) doubted(ctx context.Context, d Delivered) (inbox.Fate, error) {
	if s.opts.Ledger == nil {
		return inbox.Consumed, nil
	}
	doubted, err := s.opts.Ledger.Sends.Doubted(ctx, s.Key(d))
	switch {
	case errors.Is(err, ledger.ErrBusy):
		return inbox.Unconsumed, nil
	case err != nil:
		return inbox.Unconsumed, err
	case doubted:
		return inbox.Unknown, nil
	}
	return inbox.Consumed, nil
}

// explain returns the error of a lost or unknown message, and marks it as doubtful in the ledger, so that it
// can be sent again. fault is the fault of its inbox.
func (s *Sender) explain(ctx context.Context, d Delivered, fate inbox.Fate, fault error) error {
	var why error
	switch fate {
	case inbox.Lost:
		why = fmt.Errorf("message %q to %s: %w", d.ID, d.Member, inbox.ErrLost)
	case inbox.Unknown:
		why = fmt.Errorf("message %q to %s: %s, and %w%s", d.ID, d.Member, vanished(fault), inbox.ErrUnclear, s.outdated(d.Member))
	default:
		return nil
	}
	if s.opts.Ledger != nil {
		if err := s.opts.Ledger.Sends.MarkUnknown(ctx, s.Key(d)); err != nil {
			why = errors.Join(why, err)
		}
	}
	return why
}

// outdated returns a text, beginning with a colon, which says that a member is too old to prove anything. It is empty
// if the member is not known to be too old.
func (s *Sender) outdated(member string) string {
	if err := s.opts.Team.Agent(s.config, member).Version().Check(member); err != nil {
		return ": " + err.Error()
	}
	return ""
}

// vanished describes how a message disappeared, given the fault of its inbox.
func vanished(fault error) string {
	switch {
	case errors.Is(fault, teams.ErrTeamGone):
		return "its team has ended"
	case errors.Is(fault, inbox.ErrMissing):
		return "its inbox was deleted"
	case errors.Is(fault, inbox.ErrEmpty):
		return "its inbox has no content"
	case fault != nil:
		return fault.Error()
	}
	return "it is gone from the inbox"
}

// relayed is [Relayed] for a message of this sender.
func (s *Sender) relayed(ctx context.Context, d Delivered) (inbox.Fate, error) {
	if s.opts.Ledger == nil {
		return "", nil
	}
	var row []byte
	if d.Tracked != nil {
		row = d.Tracked.Row
	}
	return Relayed(ctx, s.opts.Ledger, s.Key(d), row)
}

// Relayed returns the result of a relay for a message: consumed, also while the relay works on it, or lost or unknown
// with the relay's reason. The fate is empty if no relay claimed the message. row, if not nil, tells it from other
// messages with its id. Without a row, the message can be a user prompt, which is unconsumed until a turn begins with it.
func Relayed(ctx context.Context, l *ledger.Ledger, key inbox.SendKey, row []byte) (inbox.Fate, error) {
	all, err := l.Deliveries.WithID(ctx, key.InboxKey, key.ID)
	var given time.Time // the prompt
	if err == nil && row == nil {
		var prompts []ledger.Delivery
		prompts, given, err = prompted(ctx, l, key)
		all = append(all, prompts...)
	}
	if errors.Is(err, ledger.ErrBusy) {
		return inbox.Unconsumed, nil
	} else if err != nil {
		return inbox.Unconsumed, err
	}
	var fate inbox.Fate
	for _, c := range all {
		if row != nil && !same(row, c.Raw) {
			continue // another message with this id
		}
		switch cause, why := ledger.SplitReason(c.Reason); {
		case !c.State.Ended() && !c.Marked:
			fate = inbox.Unconsumed // it is being claimed
		case c.Person && !c.State.Ended() && given.IsZero():
			fate = inbox.Unconsumed
		case c.State == ledger.Failed && cause == ledger.CauseUnknown:
			fate, err = inbox.Unknown, fmt.Errorf("message %q to %s: %s, and %w", key.ID, key.Inbox, why, inbox.ErrUnclear)
		case c.State == ledger.Dropped, c.State == ledger.Cancelled, c.State == ledger.Failed:
			fate = inbox.Lost
			err = fmt.Errorf("message %q to %s was %s by its relay: %s: %w", key.ID, key.Inbox, c.State, c.Reason, ErrNotDelivered)
		default:
			return inbox.Consumed, nil
		}
	}
	return fate, err
}

// prompted returns the user prompt with an id, if there is one, and when the model was given it; zero if it was not.
func prompted(ctx context.Context, l *ledger.Ledger, key inbox.SendKey) (list []ledger.Delivery, given time.Time, err error) {
	d, found, err := l.Sends.Prompt(ctx, key)
	if err != nil || !found {
		return nil, given, err
	}
	switch d.State {
	case ledger.Accepted, ledger.Cut, ledger.Done:
		m, pane, err := l.PaneMessages.Message(ctx, d.UUID)
		switch {
		case err != nil:
			return nil, given, err
		case !pane:
			given = d.At
		case m.Task == ledger.TaskGiven, m.Task == ledger.TaskEnded && m.Lost == "":
			given = m.TaskAt
		}
	}
	return []ledger.Delivery{d}, given, nil
}

// ErrNotDelivered means that a relay claimed a message and failed to deliver it.
var ErrNotDelivered = errors.New("the agent did not get it")

// same reports whether two rows hold the same message.
func same(a, b []byte) bool {
	ra, rb := parse(a), parse(b)
	return ra != nil && rb != nil && ra.Digest() == rb.Digest()
}

// parse reads one row. It returns nil if raw is not a row.
func parse(raw []byte) *inbox.Row {
	row, err := inbox.ParseRow(raw)
	if err != nil {
		return nil
	}
	return &row
}

// recorded returns the fate of a message that was sent before and is gone, according to the journal.
func (s *Sender) recorded(ctx context.Context, d Delivered, seen *inbox.Seen) (inbox.Fate, error) {
	if s.opts.Journal == nil {
		return inbox.Unknown, nil
	}
	j, err := s.opts.Journal(ctx)
	if err != nil {
		return inbox.Unknown, nil // its opener reports the error
	}
	key := s.Key(d)
	receipt, found, err := j.Receipts.Receipt(ctx, key)
	if err != nil || found && receipt.State == inbox.Consumed {
		return inbox.Consumed, err
	}
	last, err := s.Latest(ctx, key)
	switch {
	case err != nil:
		return "", err
	case last.Seq == 0:
		return inbox.Unknown, nil
	case !last.ReadAt.IsZero():
		return inbox.Consumed, nil
	}
	// The message was seen in the inbox and is gone.
	if passed, err := stood(ctx, j, key, last.Seq, seen); err != nil || passed {
		return inbox.Lost, err
	}
	if seen.Fault != nil || s.keeps(ctx, d.Member, inbox.Kept(seen.Rows)) {
		return inbox.Unknown, nil
	}
	return inbox.Consumed, nil
}

// broughtBack reports whether, according to the journal, all unread rows ahead of a message had disappeared,
// too, and came back later. Such rows prove nothing: a program that ignores the lock may have restored rows
// that the agent had taken.
func (s *Sender) broughtBack(ctx context.Context, d Delivered, seen *inbox.Seen) bool {
	if s.opts.Journal == nil {
		return false
	}
	j, err := s.opts.Journal(ctx)
	if err != nil {
		return false
	}
	key := s.Key(d)
	last, err := latest(ctx, j, key, func(r *inbox.Row) bool { return same(d.Tracked.Row, r.Raw) })
	if err != nil || last.Seq == 0 {
		return false
	}
	passed, err := stood(ctx, j, key, last.Seq, seen)
	return err == nil && !passed
}

// Latest returns the last record of a sent message in the journal, or the zero Record. It skips messages of others
// with its id.
func (s *Sender) Latest(ctx context.Context, key inbox.SendKey) (last journal.Record, err error) {
	j, err := s.opts.Journal(ctx)
	if err != nil {
		return last, err
	}
	is := func(*inbox.Row) bool { return true }
	if s.opts.Ledger != nil {
		send, found, err := s.opts.Ledger.Sends.Recall(ctx, key)
		if err != nil {
			return last, err
		}
		if found {
			is = func(r *inbox.Row) bool {
				unsigned := inbox.Row{Text: r.Text, Summary: r.Summary, Color: r.Color} // as [inbox.Message.Digest]
				return r.Digest() == send.Digest || unsigned.Digest() == send.Digest
			}
		}
	}
	return latest(ctx, j, key, is)
}

// latest returns the last message with the id of key in the journal that is the given one, or the zero Record.
func latest(ctx context.Context, j *journal.Journal, key inbox.SendKey, is func(*inbox.Row) bool) (last journal.Record, err error) {
	q := inboxOf(key)
	q.ID, q.Newest = key.ID, true
	for m, err := range j.Messages.All(ctx, q) {
		if err != nil || is(&m.Row) {
			return m, err
		}
	}
	return last, nil
}

// stood reports whether an unread row has been in the inbox since before message seq. A row
// that was gone and came back has a new number in the journal.
func stood(ctx context.Context, j *journal.Journal, key inbox.SendKey, seq int64, seen *inbox.Seen) (bool, error) {
	q := inboxOf(key)
	q.Before, q.Newest = seq, true
	for m, err := range j.Messages.All(ctx, q) {
		if err != nil {
			return false, err
		}
		if m.GoneAt.IsZero() && m.ReadAt.IsZero() && seen.Unread(m.Key()) {
			return true, nil
		}
	}
	return false, nil
}

func inboxOf(key inbox.SendKey) journal.Query {
	return journal.Query{Root: key.Root, Team: key.Team, CreatedAt: key.CreatedAt, Inbox: key.Inbox}
}

package mail

import (
	"context"
	"errors"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/teams"
)

// followStep is how often [Sender.Await] looks at an inbox.
const followStep = 10 * time.Millisecond

// seenStep is how often [Sender.AwaitSeen] looks at transcripts.
const seenStep = 50 * time.Millisecond

// Await waits until the agent has taken a message that was put into its inbox. The errors are those of
// [Sender.Look] and, when ctx ends, its cause.
func (s *Sender) Await(ctx context.Context, d Delivered) error {
	tick := time.NewTicker(followStep)
	defer tick.Stop()
	for {
		if fate, err := s.Follow(ctx, d); fate == inbox.Consumed || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// AwaitSeen waits until the agent's model has received a message; see [Sender.Seen]. The errors are those of
// [Sender.Await]. consumed reports whether the agent has taken the message.
func (s *Sender) AwaitSeen(ctx context.Context, d Delivered) (consumed bool, err error) {
	tick := time.NewTicker(seenStep)
	defer tick.Stop()
	for {
		if !consumed {
			fate, err := s.Follow(ctx, d)
			if err != nil {
				return false, err
			}
			consumed = fate == inbox.Consumed
		}
		at, err := s.seenNow(ctx, &d)
		switch {
		case err == nil && !at.IsZero():
			return true, nil
		case err != nil && !errors.Is(err, journal.ErrBusy) && !errors.Is(err, ledger.ErrBusy):
			return consumed, err
		}
		if fate, err := s.relayed(ctx, d); consumed && (fate == inbox.Lost || fate == inbox.Unknown) {
			return true, err // its relay took it, and has given it up
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return consumed, context.Cause(ctx)
		}
	}
}

// seenNow is [Sender.Seen] for one message, which may be a duplicate of one sent before.
func (s *Sender) seenNow(ctx context.Context, d *Delivered) (at time.Time, err error) {
	if d.Tracked == nil && s.opts.Ledger != nil {
		if list, at, err := prompted(ctx, s.opts.Ledger, s.Key(*d)); err != nil || len(list) > 0 {
			return at, err
		}
	}
	if d.Tracked == nil {
		if s.opts.Journal == nil {
			return at, nil
		}
		last, err := s.Latest(ctx, s.Key(*d))
		if err != nil || last.Seq == 0 {
			return at, err
		}
		d.Tracked = &inbox.Tracked{ID: d.ID, Row: last.Raw}
	}
	list, err := s.Seen(ctx, *d)
	if err != nil {
		return at, err
	}
	return list[0], nil
}

// Follow checks the fate of a message once, with [Sender.Sight] and [Sender.Judge].
func (s *Sender) Follow(ctx context.Context, d Delivered) (inbox.Fate, error) {
	at, err := s.Sight(ctx, d)
	if err != nil {
		return inbox.Unconsumed, err
	}
	return s.Judge(ctx, d, at)
}

// A Sight is one reading of an inbox, for all messages that are followed there.
type Sight struct {
	Seen  *inbox.Seen // nil if the inbox cannot be read for now
	Again bool        // read again: another process read at the same time, and may have seen more

	recorded bool // in the journal, or not to be recorded because the rows could not be read
}

// missingFor is how long an inbox must be missing before it counts as deleted: when a team ends, its inboxes are
// deleted before its directory.
const missingFor = 250 * time.Millisecond

// Sight reads the inbox of a message. If the team is gone, Sight records its end, and returns [teams.ErrTeamGone]
// with a Sight that can be judged.
func (s *Sender) Sight(ctx context.Context, d Delivered) (*Sight, error) {
	now := time.Now()
	seen, err := s.See(ctx, d)
	for err == nil && seen != nil && errors.Is(seen.Fault, inbox.ErrMissing) && time.Since(now) < missingFor {
		select {
		case <-time.After(followStep):
			seen, err = s.See(ctx, d)
		case <-ctx.Done():
			return &Sight{}, context.Cause(ctx)
		}
	}
	if err == nil && seen != nil {
		// An open directory can still be read after it was moved to a place where no agent looks.
		if gone := s.opts.Team.Exists(); errors.Is(gone, teams.ErrTeamGone) {
			err = gone
		}
	}
	if errors.Is(err, teams.ErrTeamGone) {
		s.Record(ctx, journal.Snapshot{InboxKey: s.Key(d).InboxKey, Gone: true, At: now})
		return &Sight{Seen: &inbox.Seen{Fault: err}, recorded: true}, err
	}
	return &Sight{Seen: seen, recorded: seen == nil || errors.As(seen.Fault, new(*inbox.CorruptError))}, err
}

// Judge decides the fate of a message, as [Sender.Look] does. It records the sight before it returns any fate but
// [inbox.Unconsumed]: the journal must have a message before its receipt, and an agent can take a message before any
// other process sees it.
func (s *Sender) Judge(ctx context.Context, d Delivered, at *Sight) (inbox.Fate, error) {
	fate, err := s.Look(ctx, d, at.Seen)
	if fate == inbox.Unconsumed || ctx.Err() != nil {
		return inbox.Unconsumed, err
	}
	if !at.recorded {
		at.recorded = true
		at.Again = s.Record(ctx, journal.SnapshotOf(s.Key(d), at.Seen))
	}
	if at.Again && fate == inbox.Consumed {
		return inbox.Unconsumed, nil
	}
	if fate == inbox.Consumed {
		s.Conversation(d).Expect()
	}
	return fate, err
}

// Record records a snapshot of an inbox if there is a journal, and reports whether to read the inbox again.
// Its errors go to Options.Unrecorded.
func (s *Sender) Record(ctx context.Context, seen journal.Snapshot) (again bool) {
	if s.opts.Journal == nil {
		return false
	}
	if s.opts.RecordWithin > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.RecordWithin)
		defer cancel()
	}
	j, err := s.opts.Journal(ctx)
	var o journal.Observation
	if err == nil {
		o, err = j.Messages.Observe(ctx, seen)
	}
	if err != nil && s.opts.Unrecorded != nil && !errors.Is(err, context.Canceled) {
		s.opts.Unrecorded(err)
	}
	return len(o.Again) > 0
}

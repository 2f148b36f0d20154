package mail

import (
	"context"
	"errors"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/teams"
)

// followStep is how often [Sender.Await] looks at an inbox.
const followStep = 10 * time.Millisecond

// Await follows a message that was put until its agent has taken it. The errors are
// those of [Sender.Look] and, when ctx ends, its cause.
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

// Follow looks once for what has become of a message: it is [Sender.Sight] and
// [Sender.Judge].
func (s *Sender) Follow(ctx context.Context, d Delivered) (inbox.Fate, error) {
	at, err := s.Sight(ctx, d)
	if err != nil {
		return inbox.Unconsumed, err
	}
	return s.Judge(ctx, d, at)
}

// A Sight is one look at an inbox, for all messages that are followed there.
type Sight struct {
	Seen  *inbox.Seen // nil if the inbox cannot be read for now
	Again bool        // look again: somebody else looked at the same time, and may have seen more

	recorded bool
}

// Sight looks at the inbox of a message that was put. If the team is gone, it records
// that, and returns [teams.ErrTeamGone].
func (s *Sender) Sight(ctx context.Context, d Delivered) (*Sight, error) {
	now := time.Now()
	seen, err := s.See(ctx, d)
	if errors.Is(err, teams.ErrTeamGone) {
		s.Record(ctx, journal.Snapshot{Root: s.opts.Team.Root().Path(), Team: s.config.Instance(), Inbox: d.Member, Gone: true, At: now})
	}
	return &Sight{Seen: seen}, err
}

// Judge says what became of a message, as [Sender.Look] does. Before it says anything but
// [inbox.Unconsumed] it records the sight, since no receipt may say more than the journal,
// and an agent can take a message before anybody else sees it.
func (s *Sender) Judge(ctx context.Context, d Delivered, at *Sight) (inbox.Fate, error) {
	fate, err := s.Look(ctx, d, at.Seen)
	if fate == inbox.Unconsumed || ctx.Err() != nil {
		return inbox.Unconsumed, err
	}
	if at.Seen != nil && !at.recorded {
		at.recorded = true
		at.Again = s.Record(ctx, journal.SnapshotOf(s.Key(d), at.Seen))
	}
	if at.Again && fate == inbox.Consumed {
		return inbox.Unconsumed, nil
	}
	return fate, err
}

// Record records what was seen of an inbox, if there is a journal, and reports whether to
// look at it again. Options.Unrecorded gets its errors.
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
		o, err = j.Observe(ctx, seen)
	}
	if err != nil && s.opts.Unrecorded != nil && !errors.Is(err, context.Canceled) {
		s.opts.Unrecorded(err)
	}
	return len(o.Again) > 0
}

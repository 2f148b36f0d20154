package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/status/view"
	"teambridge/teams"
)

// A command that follows its message records it in the journal. An agent can take a
// message so quickly that nobody who watches the inbox sees it; the sender knows that
// it was there, and when.

// record records what was seen of the inbox of a message. If there is no journal, the
// message is sent anyway, and the person is warned once.
func (s *sender) record(ctx context.Context, d mail.Delivered, seen *inbox.Seen) {
	if s.unrecorded || seen == nil {
		return
	}
	if err := s.observe(ctx, d, seen); err != nil && ctx.Err() == nil {
		s.app.warn("%s; the history may lack this message", view.Describe(err))
		s.unrecorded = true
	}
}

func (s *sender) observe(ctx context.Context, d mail.Delivered, seen *inbox.Seen) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.app.wait, journalWait))
	defer cancel()
	j, err := s.journal(ctx)
	if err != nil {
		return err
	}
	// Somebody else may look at the same time, and then another look is asked for.
	for range 3 {
		o, err := j.Observe(ctx, journal.SnapshotOf(s.Key(d), seen))
		if err != nil || len(o.Again) == 0 {
			return err
		}
		if seen, err = s.sight(ctx, d); seen == nil {
			return err
		}
	}
	return nil
}

// sight reads the inbox of a message. If the team is gone it returns an empty inbox
// and [teams.ErrTeamGone].
func (s *sender) sight(ctx context.Context, d mail.Delivered) (*inbox.Seen, error) {
	now := time.Now()
	seen, err := s.See(ctx, d)
	if errors.Is(err, teams.ErrTeamGone) {
		seen = &inbox.Seen{At: now, Done: time.Now()}
	}
	return seen, err
}

// history returns the journal for package mail. If there is none, the person is warned
// once.
func (s *sender) history(ctx context.Context) (*journal.Journal, error) {
	j, err := s.journal(ctx)
	if err != nil && ctx.Err() == nil && !s.unrecorded {
		s.app.warn("%s; what became of this message may not be known", view.Describe(err))
		s.unrecorded = true
	}
	return j, err
}

// journal returns that of the tap that this command runs, or opens it.
func (s *sender) journal(ctx context.Context) (*journal.Journal, error) {
	if s.app.recording != nil {
		return s.app.recording.journal, nil
	}
	if s.kept == nil {
		var err error
		if s.kept, err = s.app.journal(ctx); err != nil {
			return nil, err
		}
	}
	return s.kept, nil
}

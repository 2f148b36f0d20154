package status

import (
	"context"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/teams"
)

// Source is where it is known from what members did. Journal is needed.
type Source struct {
	Journal *journal.Journal

	// Ledger says what was sent from here, also while nobody watched; nil where
	// that is not known.
	Ledger *ledger.Ledger
}

// recent is how many of the last messages of each member, and to each, are
// looked through for its status. The last one decides; the others are for clocks
// that disagree, and for rows that are not taken yet.
const recent = 50

// Read returns the status of every agent of a team as of now: [Of] what the
// source has of this instance of it. The errors are those of [teams.Team.Config],
// of the journal and of the ledger.
func (s Source) Read(ctx context.Context, team *teams.Team, now time.Time) ([]Status, error) {
	c, err := team.Config(ctx)
	if err != nil {
		return nil, err
	}
	instance := c.Instance()
	q := journal.Query{Root: team.Root().Path(), Team: instance.Team, CreatedAt: instance.CreatedAt, Newest: true, Limit: recent}
	authors, err := s.Journal.Authors(ctx, q)
	if err != nil {
		return nil, err
	}
	var events []Event
	for _, author := range authors {
		q.From = author
		for m, err := range s.Journal.Messages(ctx, q) {
			if err != nil {
				return nil, err
			}
			events = append(events, Event{Entry: m.Entry(), FirstSeen: m.FirstSeen})
		}
	}
	given := Given{}
	if s.Ledger != nil {
		// What was taken while nothing watched is known to have been sent.
		if given, err = s.Ledger.LastSends(ctx, q.Root, instance.Team, instance.CreatedAt); err != nil {
			return nil, err
		}
	}
	q.From = ""
	for _, member := range c.Members {
		q.Inbox = member.Name
		for m, err := range s.Journal.Messages(ctx, q) {
			if err != nil {
				return nil, err
			}
			if at := taken(m); at.After(given[member.Name]) {
				given[member.Name] = at
			}
		}
	}
	return Of(now, c, events, given), nil
}

// taken is when a message was taken from its inbox, as far as that is known: at
// least, it was written before. Zero: it was not taken.
func taken(m journal.Message) time.Time {
	at := m.GoneAt
	if !m.ReadAt.IsZero() {
		at = m.ReadAt
	}
	if at.Equal(m.FirstSeen) {
		if written, ok := m.Time(); ok && written.Before(at) {
			return written
		}
	}
	return at
}

package status

import (
	"context"
	"os"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
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
func (s Source) Read(ctx context.Context, team *teams.Team, now time.Time) ([]api.Status, error) {
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
			entry := m.Entry()
			if m.Answer != "" {
				entry.Text = "" // whatever it looks like, it says nothing about a state
			}
			events = append(events, Event{Entry: entry, FirstSeen: m.FirstSeen})
		}
	}
	var sends map[string]time.Time
	if s.Ledger != nil {
		// What was taken while nothing watched is known to have been sent.
		if sends, err = s.Ledger.LastSends(ctx, q.Root, instance.Team, instance.CreatedAt); err != nil {
			return nil, err
		}
	}
	given := Given{}
	q.From = ""
	for _, member := range c.Members {
		taking := Taking{Seen: sends[member.Name], By: changed(team, member.Name)}
		q.Inbox = member.Name
		for m, err := range s.Journal.Messages(ctx, q) {
			if err != nil {
				return nil, err
			}
			if at := taken(m); at.After(taking.Seen) {
				taking.Seen = at
			}
		}
		given[member.Name] = taking
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

// tick is how far behind the clock the time of a file can be: the kernel dates
// files by its last tick, of which there are 100 a second at least.
const tick = 10 * time.Millisecond

// changed returns by when an inbox was last changed, and so was taken from: zero
// where there is none, or where files are dated by the second.
func changed(team *teams.Team, member string) time.Time {
	box, err := inbox.Open(team, member, nil) // nothing is written
	if err != nil {
		return time.Time{}
	}
	info, err := os.Stat(box.Path())
	if err != nil || info.ModTime().Nanosecond() == 0 {
		return time.Time{}
	}
	return info.ModTime().Add(tick)
}

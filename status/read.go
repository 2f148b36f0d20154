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

// Source has what members did. Journal is needed.
type Source struct {
	Journal *journal.Journal

	// Ledger has what was sent from here, even while nobody watched; it may be nil.
	Ledger *ledger.Ledger
}

// recent is the number of the last messages from and to each member that are read. The
// last one decides; the others matter if clocks disagree or rows are not taken yet.
const recent = 50

// Read returns the status of every agent of a team as of now, by [Of]. The errors are
// those of [teams.Team.Config], the journal and the ledger.
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
				entry.Text = "" // a model's text is not a lifecycle event, whatever it looks like
			}
			events = append(events, Event{Entry: entry, FirstSeen: m.FirstSeen})
		}
	}
	var sends map[string]time.Time
	if s.Ledger != nil {
		// What was taken while nobody watched is known from what was sent.
		if sends, err = s.Ledger.LastSends(ctx, q.Root, instance.Team, instance.CreatedAt); err != nil {
			return nil, err
		}
	}
	all := Taken{}
	q.From = ""
	for _, member := range c.Members {
		last := LastTaken{Seen: sends[member.Name], By: lastChange(team, member.Name)}
		q.Inbox = member.Name
		for m, err := range s.Journal.Messages(ctx, q) {
			if err != nil {
				return nil, err
			}
			if at := takenAt(m); at.After(last.Seen) {
				last.Seen = at
			}
		}
		all[member.Name] = last
	}
	return Of(now, c, events, all), nil
}

// takenAt returns when a message was taken from its inbox: if nobody saw that, when it was
// written; if it was not taken, zero.
func takenAt(m journal.Message) time.Time {
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

// tick is how far behind the clock the time of a file can be: one tick of the kernel.
const tick = 10 * time.Millisecond

// lastChange returns a time after which an inbox file was not changed. It is zero if there
// is no file, or the file system has a resolution of seconds.
func lastChange(team *teams.Team, member string) time.Time {
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

package status

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/teams"
)

// Source has the records of members' activity. Both are optional, at the cost of knowledge.
type Source struct {
	Journal *journal.Journal
	Ledger  *ledger.Ledger // messages sent with teambridge, even while no watcher recorded
}

// recent is how many of the last messages from and to each member are read. The last one decides; the others
// matter if clocks disagree or rows are not taken yet.
const recent = 50

// Read returns the current status of every agent of a team, by [Of], without its relay, questions and unread
// messages. The errors are those of [teams.Team.Config], the journal and the ledger.
func (s Source) Read(ctx context.Context, team *teams.Team, now time.Time) ([]Known, error) {
	c, err := team.Config(ctx)
	if err != nil {
		return nil, err
	}
	instance := c.Instance()
	q := journal.Query{Root: team.Root().Path(), Team: instance.Team, CreatedAt: instance.CreatedAt, Newest: true, Limit: recent}
	var authors []string
	if s.Journal != nil {
		if authors, err = s.Journal.Messages.Authors(ctx, q); err != nil {
			return nil, err
		}
	}
	var events []Event
	for _, author := range authors {
		q.From = author
		for m, err := range s.Journal.Messages.All(ctx, q) {
			if err != nil {
				return nil, err
			}
			entry := m.Entry()
			if m.Answer != "" {
				entry.Text = "" // the text of a model is never a lifecycle event
			}
			events = append(events, Event{Entry: entry, FirstSeen: m.FirstSeen})
		}
	}
	var sends map[string]time.Time
	if s.Ledger != nil {
		// For rows that were taken while no watcher recorded, use the ledger's sends.
		if sends, err = s.Ledger.Sends.Last(ctx, q.Root, instance.Team, instance.CreatedAt); err != nil {
			return nil, err
		}
	}
	all := Taken{}
	q.From = ""
	for _, member := range c.Members {
		last := LastTaken{Written: sends[member.Name], By: lastChange(team, member.Name)}
		if all[member.Name] = last; s.Journal == nil {
			continue
		}
		q.Inbox = member.Name
		for m, err := range s.Journal.Messages.All(ctx, q) {
			if err != nil {
				return nil, err
			}
			seen, written := takenAt(m)
			last.Seen, last.Written = latest(last.Seen, seen), latest(last.Written, written)
		}
		all[member.Name] = last
	}
	turns := map[string]Turn{}
	for _, member := range c.Members {
		if turns[member.Name], err = s.turn(ctx, q, member.Name); err != nil {
			return nil, err
		}
	}
	processes, versions := team.Processes(c), team.Versions(c)
	gone, ended := team.LeadState(c, now) == teams.Gone, team.Ended(c, now)
	var list []Known
	for _, status := range Of(now, c, events, all, turns) {
		k := Known{Status: status, Signs: Signs{Turn: turns[status.Member], LeadGone: gone, Gone: ended[status.Member], Version: versions[status.Member]}}
		if m, ok := c.Member(status.Member); ok {
			k.Color = m.Color
		}
		if p := processes[status.Member]; p.Interactive {
			k.Process = &p
		}
		list = append(list, k)
	}
	return list, nil
}

// turn returns the newest recorded turn of a member. q selects the team.
func (s Source) turn(ctx context.Context, q journal.Query, member string) (t Turn, err error) {
	if s.Journal == nil {
		return t, nil
	}
	q.Inbox, q.Limit = member, 1
	of := journal.EnvelopeQuery{Query: q, Role: "agent"}
	for e, err := range s.Journal.Envelopes.All(ctx, of) {
		if err != nil {
			return t, err
		}
		t.Heard = e.At
	}
	if t.Heard.IsZero() {
		return t, nil
	}
	of.Kinds = []string{"turn-start", "turn-end"}
	for e, err := range s.Journal.Envelopes.All(ctx, of) {
		if err != nil {
			return t, err
		}
		var envelope struct {
			Event struct {
				Status string `json:"status"`
			} `json:"ev"`
		}
		if t.At, t.Running = e.At, e.Kind == "turn-start"; json.Unmarshal(e.Raw, &envelope) == nil {
			t.Outcome = envelope.Event.Status
		}
	}
	return t, nil
}

// takenAt returns when a message was seen to leave its inbox, or, if nobody saw that, when it was written;
// both are zero if it was not taken.
func takenAt(m journal.Record) (seen, written time.Time) {
	at := m.GoneAt
	if !m.ReadAt.IsZero() {
		at = m.ReadAt
	}
	if at.Equal(m.FirstSeen) {
		if written, ok := m.Time(); ok && written.Before(at) {
			return time.Time{}, written
		}
	}
	return at, time.Time{}
}

// tick is how far the time of a file can be behind the clock: one tick of the kernel.
const tick = 10 * time.Millisecond

// lastChange returns a time after which an inbox file was not changed; zero if there is no file, or the file
// system's times are in whole seconds.
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

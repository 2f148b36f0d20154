package history

import (
	"context"
	"time"

	"teambridge/inbox/journal"
	"teambridge/teams"
)

// Recalled is what the journal has of a question that is asked again under its id, as after a service
// was restarted: its answer may be there already.
type Recalled struct {
	At    time.Time        // when it was sent
	Taken time.Time        // by the member; zero: not known
	Said  []journal.Record // by the member since then
}

// Recall returns what is known of a question to a member that was sent under an id; nil: it was not.
func (r *Recorder) Recall(ctx context.Context, team teams.Instance, member, id string) (*Recalled, error) {
	q := journal.Query{Root: r.root.Path(), Team: team.Team, CreatedAt: team.CreatedAt, Before: r.after + 1}
	if id == "" {
		return nil, nil
	}
	sent := q
	sent.Inbox, sent.ID, sent.Limit = member, id, 1
	var asked journal.Record
	for m, err := range r.journal.Messages.All(ctx, sent) {
		if err != nil {
			return nil, err
		}
		asked = m
	}
	if asked.Seq == 0 {
		return nil, nil
	}
	c := &Recalled{At: asked.FirstSeen}
	if at, known := asked.Time(); known && at.Before(c.At) {
		c.At = at
	}
	q.After = asked.Seq
	receipts := journal.Query{Root: q.Root, Team: q.Team, CreatedAt: q.CreatedAt, Inbox: member, ID: id, Newest: true, Limit: 1}
	for receipt, err := range r.journal.Receipts.All(ctx, receipts) {
		if err != nil {
			return nil, err
		}
		c.Taken = receipt.ConsumedAt
	}
	q.From = member
	for m, err := range r.journal.Messages.All(ctx, q) {
		if err != nil {
			return nil, err
		}
		c.Said = append(c.Said, m)
	}
	return c, nil
}

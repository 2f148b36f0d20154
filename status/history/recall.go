package history

import (
	"context"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/teams"
)

// Recalled is the record of a question that is asked again under its id, for example after a restart of the
// service. Its answer may have arrived already.
type Recalled struct {
	At    time.Time        // when the question was sent
	Taken time.Time        // when the member took it; zero: unknown
	Said  []journal.Record // answers of the member since then
}

// Recall returns the record of a question that was sent to a member under its id. It is nil if none was. Others may
// have sent messages with this id.
func (r *Recorder) Recall(ctx context.Context, team teams.Instance, member string, question *inbox.Message) (*Recalled, error) {
	id := question.ID
	q := journal.Query{Root: r.root.Path(), Team: team.Team, CreatedAt: team.CreatedAt, Before: r.after + 1}
	if id == "" {
		return nil, nil
	}
	sent := q
	sent.Inbox, sent.ID = member, id
	var asked journal.Record
	for m, err := range r.journal.Messages.All(ctx, sent) {
		if err != nil {
			return nil, err
		}
		if question.IsRow(&m.Row) {
			asked = m
			break
		}
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

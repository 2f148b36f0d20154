package bridge

import (
	"context"
	"time"

	"teambridge/inbox/journal"
	"teambridge/teams"
)

// recalled is what the journal has of a question that is asked again under its id, as after a service
// was restarted: its answer may be there already.
type recalled struct {
	at    time.Time        // when it was sent
	taken time.Time        // by the member; zero: not known
	said  []journal.Record // by the member since then
}

// recall returns what is known of a question to a member that was sent under an id; nil: it was not.
func (r *Recorder) recall(ctx context.Context, team teams.Instance, member, id string) (*recalled, error) {
	q := journal.Query{Root: r.root.Path(), Team: team.Team, CreatedAt: team.CreatedAt, Before: r.after + 1}
	if id == "" {
		return nil, nil
	}
	sent := q
	sent.Inbox, sent.ID, sent.Limit = member, id, 1
	var asked journal.Record
	for m, err := range r.journal.Messages(ctx, sent) {
		if err != nil {
			return nil, err
		}
		asked = m
	}
	if asked.Seq == 0 {
		return nil, nil
	}
	c := &recalled{at: asked.FirstSeen}
	if at, known := asked.Time(); known && at.Before(c.at) {
		c.at = at
	}
	q.After = asked.Seq
	receipts := journal.Query{Root: q.Root, Team: q.Team, CreatedAt: q.CreatedAt, Inbox: member, ID: id, Newest: true, Limit: 1}
	for receipt, err := range r.journal.Receipts(ctx, receipts) {
		if err != nil {
			return nil, err
		}
		c.taken = receipt.ConsumedAt
	}
	q.From = member
	for m, err := range r.journal.Messages(ctx, q) {
		if err != nil {
			return nil, err
		}
		c.said = append(c.said, m)
	}
	return c, nil
}

package mail

import (
	"context"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/teams"
)

// Conversation returns a recipient's conversation from the first of the given messages or from an earlier time.
func (s *Sender) Conversation(list ...Delivered) *teams.Conversation {
	since := list[0].Start
	for i := range list {
		if at := list[i].sent(); at.Before(since) {
			since = at
		}
	}
	return s.conversation(list[0].Member, since)
}

func (s *Sender) conversation(member string, since time.Time) *teams.Conversation {
	return s.opts.Conversations.Of(s.opts.Team.Agent(s.config, member), since)
}

// row returns the message's row in the inbox; nil if unknown.
func (d *Delivered) row() *inbox.Row {
	if d.Tracked == nil {
		return nil
	}
	return parse(d.Tracked.Row)
}

// sent is the time of the message, to the millisecond as in transcripts.
func (d *Delivered) sent() time.Time {
	if row := d.row(); row != nil {
		if at, ok := row.Time(); ok {
			return at.Truncate(time.Millisecond)
		}
	}
	return d.Start.Truncate(time.Millisecond)
}

// Seen returns when the recipient's model received each of the given messages to one inbox; zero if it did not, or if
// unknown. For messages that a relay delivered, the ledger has the time. For all others, the recipient's transcripts
// decide. They have no ids, so Seen returns a time only if it is certainly that of the message:
//
//   - The record has the sender, summary and text of the message, and is not older.
//   - Equal messages are received in the order in which they were sent, according to the journal. If one of them may
//     not have been received, the later ones have no time.
//   - The record is of version [teams.Oldest] or later.
func (s *Sender) Seen(ctx context.Context, list ...Delivered) ([]time.Time, error) {
	at := make([]time.Time, len(list))
	c := s.Conversation(list...)
	c.Read()
	var given []int // indexes in list
	since := time.Now()
	for i, d := range list {
		row := d.row()
		if row == nil {
			continue
		}
		relayed, err := s.relayedAt(ctx, d, &at[i])
		if err != nil {
			return nil, err
		}
		sent := d.sent()
		if relayed || !slices.ContainsFunc(c.Given(row.From, row.Summary, row.Text), func(at time.Time) bool { return !at.Before(sent) }) {
			continue
		}
		given = append(given, i)
		if sent.Before(since) {
			since = sent
		}
	}
	if len(given) == 0 || s.opts.Journal == nil {
		return at, nil
	}
	rows, err := s.rows(ctx, list[0], since.Add(-equalWithin))
	for _, i := range given {
		if err == nil {
			at[i], err = s.seenAt(ctx, list[i], rows)
		}
	}
	return at, err
}

// relayedAt reports whether a relay or a link claimed a message, and sets at if the model has received it.
func (s *Sender) relayedAt(ctx context.Context, d Delivered, at *time.Time) (relayed bool, err error) {
	if s.opts.Ledger == nil {
		return false, nil
	}
	all, err := s.opts.Ledger.Deliveries.WithID(ctx, s.Key(d).InboxKey, d.ID)
	for _, c := range all {
		if same(d.Tracked.Row, c.Raw) && c.State != ledger.TakenByAgent {
			relayed = true
			switch c.State {
			case ledger.Accepted, ledger.Done, ledger.Cut:
				o, linked, err := s.opts.Ledger.Outbox.Outgoing(ctx, c.UUID)
				switch {
				case err != nil:
					return true, err
				case !linked:
					*at = c.At
				case o.Stage == ledger.StageSeen:
					*at = o.StageAt
				}
			}
		}
	}
	return relayed, err
}

// equalWithin exceeds the time that a message waits for an agent's model while a sender repeats the same text.
const equalWithin = 24 * time.Hour

// rows returns the rows of an inbox that were seen since a time, in the order of the file.
func (s *Sender) rows(ctx context.Context, d Delivered, since time.Time) (list []journal.Record, err error) {
	j, err := s.opts.Journal(ctx)
	if err != nil {
		return nil, err
	}
	if s.opts.Ledger != nil { // the agent may have taken an equal message before anybody recorded it
		if _, err := j.Copy(ctx, s.opts.Ledger); err != nil {
			return nil, err
		}
	}
	q := inboxOf(s.Key(d))
	q.Since = since
	for m, err := range j.Messages.All(ctx, q) {
		if err != nil {
			return nil, err
		}
		if m.Prompt == "" && m.Answer == "" {
			list = append(list, m)
		}
	}
	return list, nil
}

// seenAt returns when the recipient's model received a message; zero if that is not certain. rows are the
// rows of the inbox.
func (s *Sender) seenAt(ctx context.Context, d Delivered, rows []journal.Record) (time.Time, error) {
	row := d.row()
	var sent []time.Time // times of equal messages
	ours := -1
	for _, m := range rows {
		isOurs := m.ID() == d.ID && m.Digest() == row.Digest()
		switch {
		case isOurs && ours >= 0:
			continue // it was put back
		case isOurs:
			ours = len(sent)
			sent = append(sent, d.sent())
			continue
		case m.From != row.From || m.Text != row.Text || m.Summary != row.Summary:
			continue
		}
		key := s.Key(d)
		key.ID = m.ID()
		if lost, err := lost(ctx, s.opts.Journal, key); err != nil {
			return time.Time{}, err
		} else if lost {
			continue
		}
		at := m.FirstSeen
		if t, ok := m.Time(); ok && t.Before(at) {
			at = t
		}
		sent = append(sent, at.Truncate(time.Millisecond))
	}
	if ours < 0 { // not recorded yet
		ours = len(sent)
		sent = append(sent, d.sent())
	}
	for i := len(sent) - 2; i >= 0; i-- { // a row can have any timestamp
		if sent[i+1].Before(sent[i]) {
			sent[i] = sent[i+1]
		}
	}
	c := s.conversation(d.Member, sent[0])
	c.Read()
	return assign(sent, c.Given(row.From, row.Summary, row.Text), ours), nil
}

// lost reports whether a sent message was lost.
func lost(ctx context.Context, open func(context.Context) (*journal.Journal, error), key inbox.SendKey) (bool, error) {
	j, err := open(ctx)
	if err != nil {
		return false, err
	}
	r, _, err := j.Receipts.Receipt(ctx, key)
	return r.State == inbox.Lost, err
}

// assign returns when the k-th of several equal messages was received, or zero if it may not have been received. sent
// are the times at which they were sent, and given the times at which one of them was received, both in order. No
// message is received before it was sent, or before an earlier one.
func assign(sent, given []time.Time, k int) time.Time {
	var used []time.Time // given, without repeated receptions
	for _, at := range given {
		if len(used) < len(sent) && !at.Before(sent[len(used)]) {
			used = append(used, at)
		}
	}
	for l := k + 1; l <= len(sent); l++ {
		// If l receptions precede the sending of message l, they are those of the l messages before it.
		n := len(used)
		if l < len(sent) {
			n, _ = slices.BinarySearchFunc(used, sent[l], time.Time.Compare)
		}
		if n >= l {
			return used[k]
		}
	}
	return time.Time{}
}

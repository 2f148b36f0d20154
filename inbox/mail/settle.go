package mail

import (
	"context"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
)

// settle records in the ledger that a message is written if its record there is still an intent and something else
// shows that it was written. Its sender was killed before it could record that, or the message was found lost or
// unknown and its agent turned out to have it. Otherwise the message could be sent again by force.
func (s *Sender) settle(ctx context.Context, d Delivered, m Message) error {
	if s.opts.Ledger == nil || m.ID == "" {
		return nil
	}
	key, draft := s.Key(d), s.draft(m)
	known, found, err := s.opts.Ledger.Sends.Recall(ctx, key)
	if err != nil || !found || known.State != ledger.Intent || known.Digest != draft.Digest() {
		return err
	}
	all, err := s.opts.Ledger.Deliveries.WithID(ctx, key.InboxKey, m.ID)
	if err != nil {
		return err
	}
	at := written(ctx, s.opts.Journal, key, draft, known)
	for _, c := range all {
		failed := c.State == ledger.Dropped || c.State == ledger.Cancelled || c.State == ledger.Failed
		if row := parse(c.Raw); row != nil && draft.IsRow(row) && !(failed && ledger.Vanished(known)) {
			at = c.At // a relay has read it there
		}
	}
	if at.IsZero() {
		return nil
	}
	return s.opts.Ledger.Sends.Written(ctx, key, at)
}

// written returns when the journal shows that a message was in its inbox; zero if it does not show that. If the
// message was found lost or unknown, only a proof that it was taken counts.
func written(ctx context.Context, open func(context.Context) (*journal.Journal, error), key inbox.SendKey, m *inbox.Message, known ledger.Send) (none time.Time) {
	if open == nil {
		return none
	}
	j, err := open(ctx)
	if err != nil {
		return none // its opener reports the error
	}
	receipt, _, err := j.Receipts.Receipt(ctx, key)
	if err != nil {
		return none
	}
	if receipt.State == inbox.Consumed {
		return receipt.ConsumedAt
	}
	last, err := latest(ctx, j, key, m.IsRow)
	if err != nil || last.Seq == 0 {
		return none
	}
	if !last.ReadAt.IsZero() {
		return last.ReadAt
	}
	// The row may be that of an earlier write, which was lost, or that of an intent, which the history has from the
	// ledger: it has the time of its receipt.
	sent, ok := last.Time()
	intent := receipt.State == inbox.Unknown && last.FirstSeen.Equal(receipt.LostAt)
	if ledger.Vanished(known) || !ok || sent.Before(known.At.Truncate(time.Millisecond)) || intent {
		return none
	}
	return last.FirstSeen
}
